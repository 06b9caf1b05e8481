// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** Moves that take effect together, at one batch.
  *
  * @param moves
  *   each bin at most once; none, if only the number of workers changes
  * @param workers
  *   how many workers there are once the step has taken effect
  */
final case class Step(moves: Vector[Move], workers: Int)
