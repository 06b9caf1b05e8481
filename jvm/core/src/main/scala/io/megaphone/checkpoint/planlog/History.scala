// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import io.megaphone.plan.{Plan, RoutingTable, SealedStep, StepId}

/** What a plan log says: the tables in force at each batch, and how far each plan has come.
  * Progress is derived from valid seals and never recorded, so a restart further back is consistent
  * by itself.
  *
  * `cancelled` has the plans that were ended before their last step, each with the reason if it
  * could not go on.
  *
  * A start record voids the seals of earlier runs for batches after its first one; a seal for the
  * first one itself stays, for that batch may have run.
  */
final case class History private (
    records: Vector[LogRecord],
    starts: Vector[LogRecord.Started],
    seals: Vector[LogRecord.Sealed],
    plans: Vector[Plan],
    cancelled: Map[String, Option[String]]
) {
  import LogRecord._

  def isEmpty: Boolean = records.isEmpty

  /** The number that the next record takes. */
  def nextNumber: Long = records.size.toLong

  /** The newest start record, which knows all column families. */
  def last: Option[Started] = starts.lastOption

  /** The first start record, which fixes bins and groups for the life of the checkpoint. */
  def first: Option[Started] = starts.headOption

  def +(record: LogRecord): History = record match {
    case r: Started =>
      copy(
        records = records :+ r,
        starts = starts :+ r,
        seals = seals.filter(_.batch <= r.firstBatch)
      )
    case r: Sealed => copy(records = records :+ r, seals = seals.filter(_.batch != r.batch) :+ r)
    case r: Submitted => copy(records = records :+ r, plans = plans :+ r.plan)
    case r: Cancelled =>
      copy(records = records :+ r, cancelled = cancelled + (r.planId -> r.reason))
  }

  /** R_batch of a group: the table of the last valid seal for that batch or an earlier one, else
    * the one it began with.
    */
  def tableAt(group: Long, batch: Long): RoutingTable =
    seals.reverseIterator
      .find(s => s.batch <= batch && s.tables.contains(group))
      .map(_.tables(group))
      .orElse(starts.iterator.map(_.tables.get(group)).collectFirst { case Some(t) => t })
      .getOrElse(
        throw new NoSuchElementException(s"the plan log knows no group $group")
      )

  /** A plan by its id. */
  def plan(id: String): Option[Plan] = plans.find(_.id == id)

  /** The seal for a batch. */
  def sealAt(batch: Long): Option[Sealed] = seals.find(_.batch == batch)

  /** The batch of each step of a plan that has one. */
  def sealedSteps(planId: String): Map[StepId, Long] = taken(planId).map { case (batch, s) =>
    s.step -> batch
  }.toMap

  /** The steps of a plan as they were taken, each with its batch. */
  def taken(planId: String): Vector[(Long, SealedStep)] =
    seals.flatMap(s => s.steps.filter(_.step.planId == planId).map(s.batch -> _))

  /** Plans with steps still to be sealed, in the order they were submitted. */
  def open: Vector[Plan] =
    plans.filter(p => !cancelled.contains(p.id) && sealedSteps(p.id).size < p.stepsCount)

  /** The batch at which a bin last moved. */
  def lastMoved(group: Long, bin: Int): Option[Long] =
    seals.reverseIterator
      .find(_.steps.exists(s => s.step.group == group && s.moves.exists(_.bin == bin)))
      .map(_.batch)
}

object History {
  val Empty: History = History(Vector.empty, Vector.empty, Vector.empty, Vector.empty, Map.empty)
  def of(records: Iterable[LogRecord]): History = records.foldLeft(Empty)(_ + _)
}
