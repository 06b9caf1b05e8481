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
  lazy val stepsCount: Int = steps.valuesIterator.map(_.size).sum

  /** By group: the most workers that any of its steps leads to. */
  lazy val workersMax: Map[Long, Int] =
    for ((group, all) <- steps if all.nonEmpty)
      yield group -> all.iterator.map(_.workers).max

  lazy val movesCount: Int = steps.valuesIterator.flatten.map(_.moves.size).sum
}
