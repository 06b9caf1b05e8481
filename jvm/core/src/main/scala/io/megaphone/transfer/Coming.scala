// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

/** What was asked of another executor: it is on its way, and may not come.
  *
  * Threads: one.
  */
trait Coming[+A] {

  /** Waits for it. Returns None if it does not come. Throws InterruptedException. Called once, or
    * never.
    */
  def await(): Option[A]

  /** Nobody will wait for it. Called twice, or after `await`: nothing happens. */
  def cancel(): Unit
}

object Coming {

  /** It is here, or will not come. */
  def now[A](found: Option[A]): Coming[A] = new Coming[A] {
    override def await(): Option[A] = found
    override def cancel(): Unit = ()
  }
}
