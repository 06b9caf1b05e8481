// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.plan.Plan
import io.megaphone.protocol.{Completion, Duties, PlanStatus, Protocol}

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
    batchesLeft: Int,
    batches: Vector[Long],
    plannedBatch: Option[Long],
    reason: Option[String]
)

object PlanRow {
  val table: Table[PlanRow] = Table(
    "plans",
    "A row for each plan that the plan log still has, in the order of submission. Trimming keeps " +
      "those that are open, those that moved bins since the oldest retained version, and up to a " +
      "hundred of those that ended last.",
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
      Column.of(
        "batches_left",
        Int32,
        "The fewest batches in which its other steps can take effect; 0 if it has ended.",
        _.batchesLeft
      ),
      Column.of("batches", Int64List, "The batches at which steps took effect.", _.batches),
      Column.optional(
        "planned_batch",
        Int64,
        "The newest batch of the query that was planned, of this plan or not.",
        _.plannedBatch
      ),
      Column.optional(
        "reason",
        Text,
        "Why some of its moves were not made, why steps cannot be prepared, or why bins that " +
          "have moved stay incomplete.",
        _.reason
      )
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
    val takenOf = taken.groupMapReduce(_._2.step.group)(_ => 1)(_ + _)
    val stepsLeft = plan.steps.map { case (group, steps) =>
      steps.size - takenOf.getOrElse(group, 0)
    }
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
      batchesLeft =
        if (state.history.end(plan.id).isDefined) 0
        else stepsLeft.map(left => -Math.floorDiv(-left, state.settings.stepsPerBatch)).max,
      batches = taken.map(_._1).distinct.sorted,
      plannedBatch = state.decision.map(_.batch.number),
      reason = ended
        .orElse(taken.flatMap(_._2.noRoom).lastOption)
        .orElse(Completion.heldUpBy(state, plan.id))
        .orElse(Duties.heldUpBy(state, plan.id))
    )
  }

  /** The rows of a query. */
  def of(state: Protocol.State, committed: => Option[Long]): Vector[PlanRow] = {
    lazy val newest = committed
    state.history.plans.valuesIterator.map(p => of(state, p.plan, newest)).toVector
  }
}
