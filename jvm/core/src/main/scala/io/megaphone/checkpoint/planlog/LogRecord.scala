// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import io.megaphone.plan.{Group, Plan, RoutingTable, SealedStep}

/** One record of the plan log: a numbered sequence in which nothing is overwritten. */
sealed trait LogRecord

object LogRecord {

  /** Opens a run. Voids what earlier runs sealed for batches after `firstBatch`.
    *
    * @param run
    *   Spark's run id
    * @param firstBatch
    *   the first batch that this run plans
    * @param checkpointFormat
    *   Spark's checkpoint format version, 1 or 2
    * @param tables
    *   by group: the table in force before any seal of `firstBatch`
    */
  final case class Started(
      run: String,
      firstBatch: Long,
      checkpointFormat: Int,
      bins: Int,
      groups: Vector[Group],
      tables: Map[Long, RoutingTable]
  ) extends LogRecord

  /** An intention: steps for groups. */
  final case class Submitted(plan: Plan) extends LogRecord

  /** Ends an intention: steps not sealed yet will not be.
    *
    * @param reason
    *   why it cannot go on; None where a user has ended it
    */
  final case class Cancelled(planId: String, reason: Option[String] = None) extends LogRecord

  /** A fact: what takes effect at `batch`, and the whole tables that result, by group. */
  final case class Sealed(
      run: String,
      batch: Long,
      steps: Vector[SealedStep],
      tables: Map[Long, RoutingTable]
  ) extends LogRecord
}
