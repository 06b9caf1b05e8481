// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

/** Does pieces of work at once, as far as there are threads for them. */
trait Parallel {

  /** How many pieces it does at once. */
  def width: Int

  /** The results, in order. Throws what one of the pieces throws, once none of them runs any more. */
  def apply[A](pieces: Seq[() => A]): Seq[A]
}

object Parallel {

  /** One after the other, in the caller's thread. */
  object Sequential extends Parallel {
    override def width: Int = 1
    override def apply[A](pieces: Seq[() => A]): Seq[A] = pieces.map(_.apply())
  }
}
