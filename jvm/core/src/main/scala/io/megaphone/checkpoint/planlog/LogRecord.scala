// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import io.megaphone.plan.{Group, Plan, RoutingTable, SealedStep, StepId}

/** One record of the plan log: a numbered sequence in which nothing is overwritten. */
sealed trait LogRecord

object LogRecord {

  /** Opens a run. Voids the seals of earlier runs for batches after `firstBatch`.
    *
    * @param run
    *   Spark's run id
    * @param firstBatch
    *   the first batch that this run plans
    * @param checkpointFormat
    *   Spark's checkpoint format version, 1 or 2
    * @param tables
    *   by group: the table in force before any seal of `firstBatch`
    * @param verdict
    *   on a seal of an earlier run
    */
  final case class Started(
      run: String,
      firstBatch: Long,
      checkpointFormat: Int,
      bins: Int,
      groups: Vector[Group],
      tables: Map[Long, RoutingTable],
      verdict: Verdict = Verdict.None
  ) extends LogRecord

  /** A plan was submitted. */
  final case class Submitted(plan: Plan) extends LogRecord

  /** Ends a plan: steps not sealed yet will not be.
    *
    * @param reason
    *   why it cannot go on; None if a user has ended it
    */
  final case class Cancelled(planId: String, reason: Option[String] = None) extends LogRecord

  /** A fact: what takes effect at `batch`, and the whole tables that result, by group.
    *
    * @param completed
    *   steps on demand of earlier batches, all of whose bins are complete from this batch on
    */
  final case class Sealed(
      run: String,
      batch: Long,
      steps: Vector[SealedStep],
      tables: Map[Long, RoutingTable],
      completed: Vector[StepId] = Vector.empty
  ) extends LogRecord {

    /** The groups and workers that the steps bring bins. */
    def gaining: Vector[(Long, Int)] =
      for (taken <- steps; move <- taken.moves) yield (taken.step.group, move.target)
  }

  /** Stands for all records before it, whose files may then be deleted.
    *
    * @param kept
    *   what those records say, without what no retained version needs
    */
  final case class Trimmed(run: String, kept: History) extends LogRecord {
    override def toString: String = s"Trimmed($run, tables since batch ${kept.seals.since})"
  }
}

/** What a run finds, as it starts, about the seal of a step that was tried again and again. */
sealed trait Verdict

object Verdict {
  case object None extends Verdict

  /** The seal for the run's first batch is taken back: the batch was never committed with it.
    *
    * @param reason
    *   why, for the user: the plans of the sealed steps end with it
    */
  final case class TakesBack(reason: String) extends Verdict

  /** The seal that the run before took back is in force: an older run has committed its batch after
    * all, as the state's files show.
    */
  case object Restores extends Verdict
}
