// SPDX-License-Identifier: Apache-2.0
package io.megaphone.store

/** Does pieces of work at once, as far as there are threads for them. */
trait Together {

  /** How many pieces it does at once. */
  def width: Int

  /** The results, in order. Throws what one of the pieces throws, once none of them runs any more. */
  def apply[A](pieces: Seq[() => A]): Seq[A]
}

object Together {

  /** One after the other, in the caller's thread. */
  object OneByOne extends Together {
    override def width: Int = 1
    override def apply[A](pieces: Seq[() => A]): Seq[A] = pieces.map(_.apply())
  }
}
