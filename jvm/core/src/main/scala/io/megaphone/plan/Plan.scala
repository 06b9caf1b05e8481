// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** A plan as submitted: for each group that it concerns, its steps in order.
  *
  * @param strategy
  *   how the moves were grouped, as text
  */
final case class Plan(
    id: String,
    steps: Map[Long, Vector[Step]],
    strategy: String,
    mode: TransferMode
) {
  def stepsCount: Int = steps.valuesIterator.map(_.size).sum
  def movesCount: Int = steps.valuesIterator.flatten.map(_.moves.size).sum
}
