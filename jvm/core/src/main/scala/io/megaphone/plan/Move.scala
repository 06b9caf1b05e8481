// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** One bin's way to another worker.
  *
  * @param bin
  *   the bin that moves, from 0 to `bins - 1`
  * @param target
  *   the worker that owns the bin once the step of this move has taken effect
  */
final case class Move(bin: Int, target: Int) {
  override def toString: String = s"bin $bin to worker $target"
}
