// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.plan.Plan
import io.megaphone.protocol.{PlanStatus, Protocol}

/** A row of the table `plans`. */
final case class PlanRow(
    id: String,
    status: PlanStatus,
    strategy: String,
    mode: String,
    operators: Vector[Long],
    steps: Int,
    stepsDone: Int,
    moves: Int,
    movesDone: Int,
    batches: Vector[Long],
    reason: Option[String]
)

object PlanRow {
  val table: Table[PlanRow] = Table(
    "plans",
    "A row for each plan of the checkpoint, in the order of submission.",
    Vector(
      Column.of("id", Text, "Id of the plan, the same after a restart of the query.", _.id),
      Column.of(
        "status",
        Text,
        PlanStatus.all.map(s => s"`${s.name}`").mkString("One of ", ", ", "."),
        _.status.name
      ),
      Column.of("strategy", Text, "How its moves were grouped into steps.", _.strategy),
      Column.of("mode", Text, "When its bytes travel.", _.mode),
      Column.of("operators", Int64List, "The groups of operators that it moves.", _.operators),
      Column.of("steps", Int32, "Number of its steps.", _.steps),
      Column.of("steps_done", Int32, "Steps that have taken effect.", _.stepsDone),
      Column.of("moves", Int32, "Number of its moves.", _.moves),
      Column.of("moves_done", Int32, "Moves that have taken effect.", _.movesDone),
      Column.of("batches", Int64List, "The batches at which steps took effect.", _.batches),
      Column.optional("reason", Text, "Why some of its moves were not made.", _.reason)
    )
  )

  /** The row of a plan.
    *
    * @param committed
    *   the newest batch that the query has committed; asked for only where it decides
    */
  def of(state: Protocol.State, plan: Plan, committed: => Option[Long]): PlanRow = {
    val taken = state.history.taken(plan.id)
    val ended = state.history.end(plan.id).flatMap(_.reason)
    PlanRow(
      plan.id,
      PlanStatus.of(state, plan, committed),
      plan.strategy,
      plan.mode.name,
      operators = plan.steps.keys.toVector.sorted,
      steps = plan.stepsCount,
      stepsDone = taken.size,
      moves = plan.movesCount,
      movesDone = taken.map(_._2.moves.size).sum,
      batches = taken.map(_._1).distinct.sorted,
      reason = ended.orElse(taken.flatMap(_._2.noRoom).lastOption)
    )
  }

  /** The rows of a query. */
  def of(state: Protocol.State, committed: => Option[Long]): Vector[PlanRow] = {
    lazy val newest = committed
    state.history.plans.valuesIterator.map(p => of(state, p.plan, newest)).toVector
  }
}
