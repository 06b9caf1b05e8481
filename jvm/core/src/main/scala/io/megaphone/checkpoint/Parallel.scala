// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

/** Does pieces of work at the same time, as far as there are threads for them.
  *
  * Threads: any.
  */
trait Parallel {

  /** How many pieces it does at the same time. */
  def width: Int

  /** Does all pieces and returns their results, in order. If a piece throws, throws the same once
    * no piece runs any more.
    */
  def apply[A](pieces: Seq[() => A]): Seq[A]
}

object Parallel {

  /** One after the other, in the caller's thread. */
  object Sequential extends Parallel {
    override def width: Int = 1
    override def apply[A](pieces: Seq[() => A]): Seq[A] = pieces.map(_.apply())
  }
}
