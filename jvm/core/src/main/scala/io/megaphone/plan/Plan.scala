// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import io.megaphone.routing.RoutingTable

/**
 * Moves that take effect together, at one batch.
 *
 * @param moves
 *   each bin at most once; none, if only the number of workers changes
 * @param workers
 *   how many workers there are once the step has taken effect
 */
final case class Step(moves: Vector[Move], workers: Int)

/**
 * What a user asks for: steps in order, one batch or more apart. An intention, never changed once submitted; a step
 * becomes a fact when it is sealed.
 *
 * @param id
 *   tells the plans of one query apart
 * @param operator
 *   a stateful operator, whose group alone moves; None moves all groups of the query
 * @param steps
 *   none, if the state is already where it is wanted
 * @param strategy
 *   what cut the steps, for display
 * @param mode
 *   when the bytes travel
 */
final case class Plan(
    id: String,
    operator: Option[Long],
    steps: Vector[Step],
    strategy: Strategy,
    mode: TransferMode
) {

  /** How many moves the steps make together. */
  def movesCount: Int = steps.map(_.moves.length).sum

  /**
   * The tables after each step, numbered from the given table's number on: what the plan leads to if no other comes
   * between. Also the check of a plan made by hand.
   *
   * @throws InvalidPlanException
   *   what [[io.megaphone.routing.RoutingTable.moved]] throws for the first step that cannot be
   */
  def tablesFrom(table: RoutingTable): Vector[RoutingTable] =
    steps.scanLeft(table)((before, step) => before.moved(step.moves, before.number + 1, step.workers)).tail

  override def toString: String = s"plan $id: $movesCount moves in ${steps.length} steps, $strategy, $mode"
}
