// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.plan.{Plan, StepId}
import io.megaphone.protocol.Protocol

/** A row of the table `steps`. */
final case class StepRow(
    plan: String,
    operator: Long,
    step: Int,
    bins: Vector[Int],
    targets: Vector[Int],
    workers: Int,
    batch: Option[Long],
    stayed: Vector[Int]
)

object StepRow {
  val table: Table[StepRow] = Table(
    "steps",
    "A row for each step of a plan: by group of operators, then in the order of the steps.",
    Vector(
      Column.of("plan", Text, "Id of the plan.", _.plan),
      Column.ofGroup(_.operator),
      Column.of("step", Int32, "Place of the step in the plan, from 0.", _.step),
      Column.of("bins", Int32List, "The bins that it moves.", _.bins),
      Column.of("targets", Int32List, "The worker that each of them moves to.", _.targets),
      Column.of("workers", Int32, "Number of workers after the step.", _.workers),
      Column.optional("batch", Int64, "The batch at which it took effect.", _.batch),
      Column.of("stayed", Int32List, "Bins that their targets had no room for.", _.stayed)
    )
  )

  /** The rows of a plan. */
  def of(state: Protocol.State, plan: Plan): Vector[StepRow] = {
    val taken =
      state.history.taken(plan.id).map { case (batch, s) => s.step -> (batch -> s.moves) }.toMap
    for {
      (group, steps) <- plan.steps.toVector.sortBy(_._1)
      (step, index) <- steps.zipWithIndex
    } yield {
      val fact = taken.get(StepId(plan.id, group, index))
      StepRow(
        plan.id,
        group,
        index,
        bins = step.moves.map(_.bin),
        targets = step.moves.map(_.target),
        workers = step.workers,
        batch = fact.map(_._1),
        stayed = fact.fold(Vector.empty[Int])(f => step.moves.diff(f._2).map(_.bin))
      )
    }
  }
}
