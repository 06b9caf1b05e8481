// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import scala.collection.immutable.VectorMap

import io.megaphone.errors.PlanLogMismatchException
import io.megaphone.plan.{Plan, RoutingTable, SealedStep, StepId}

/** What a plan log says: the tables in force at each batch, and how far each plan has come.
  * Progress is derived from valid seals and never recorded, so a restart further back is consistent
  * by itself.
  *
  * A start record voids the seals of earlier runs for batches after its first one; a seal for the
  * first one itself stays, for that batch may have run, unless the record takes it back by name.
  *
  * @param nextNumber
  *   the number that the next record takes
  * @param untrimmed
  *   records since the last one that stands for all before it
  * @param plans
  *   by id, in the order of submission
  * @param takenBack
  *   the seal that the last run took back, until it is clear that its batch ran without it
  */
final case class History private[megaphone] (
    nextNumber: Long,
    untrimmed: Int,
    starts: Starts,
    seals: Seals,
    plans: VectorMap[String, PlanProgress],
    takenBack: Option[LogRecord.Sealed]
) {
  import LogRecord._

  def isEmpty: Boolean = nextNumber == 0

  /** The newest start record, which knows all column families. */
  def last: Option[Started] = starts.last

  /** The first start record, which fixes bins and groups for the life of the checkpoint. */
  def first: Option[Started] = starts.first

  def +(record: LogRecord): History = {
    val next = record match {
      case r: Started => started(r)
      case r: Sealed => sealedBy(r).copy(takenBack = None)
      case r: Submitted => copy(plans = plans.updated(r.plan.id, PlanProgress(r.plan)))
      case r: Cancelled => ended(r.planId, r.reason)
      case r: Trimmed => r.kept
    }
    val isTrimmed = record.isInstanceOf[Trimmed]
    next.copy(nextNumber = nextNumber + 1, untrimmed = if (isTrimmed) 0 else untrimmed + 1)
  }

  private def started(r: Started): History = {
    val isVoid = r.verdict match {
      case _: Verdict.TakesBack => (batch: Long) => batch >= r.firstBatch
      case _ => (batch: Long) => batch > r.firstBatch
    }
    val isRetry =
      r.verdict == Verdict.None && seals.at(r.firstBatch).exists(_.steps.nonEmpty)
    val counted = if (isRetry) starts.retrying(r) else (starts + r).uncounted
    val valid = without(isVoid).copy(starts = counted, takenBack = None)
    r.verdict match {
      case Verdict.TakesBack(reason) =>
        val seal = seals.at(r.firstBatch)
        val concerned = seal.toVector.flatMap(_.steps).map(_.step.planId).distinct
        concerned.foldLeft(valid.copy(takenBack = seal))(_.ended(_, Some(reason)))
      case Verdict.Restores => takenBack.foldLeft(valid)(_ restoredBy _)
      case Verdict.None =>
        // As long as its batch is not known to be committed, an older run may still commit it.
        valid.copy(takenBack = takenBack.filter(_.batch == r.firstBatch))
    }
  }

  /** The plans of a restored seal were ended by the run that took it back. */
  private def restoredBy(seal: Sealed): History = {
    val again = sealedBy(seal)
    val concerned = seal.steps.map(_.step.planId).distinct
    again.copy(plans =
      concerned.foldLeft(again.plans)((plans, id) => plans.updatedWith(id)(_.map(_.restored)))
    )
  }

  private def sealedBy(seal: Sealed): History = {
    val valid = without(_ == seal.batch)
    val taken = seal.steps.foldLeft(valid.plans)((plans, step) =>
      plans.updatedWith(step.step.planId)(_.map(_ + (seal.batch -> step)))
    )
    valid.copy(
      starts = valid.starts.uncounted,
      seals = valid.seals + seal,
      plans = seal.completed.foldLeft(taken)((plans, step) =>
        plans.updatedWith(step.planId)(_.map(_.completing(step, seal.batch)))
      )
    )
  }

  private def ended(planId: String, reason: Option[String]): History =
    copy(plans = plans.updatedWith(planId)(_.map(_.copy(end = Some(PlanEnd(reason))))))

  private def without(isVoid: Long => Boolean): History =
    if (!seals.byBatch.keysIterator.exists(isVoid)) this
    else
      copy(
        seals = seals.without(isVoid),
        plans = VectorMap.from(plans.iterator.map { case (id, p) => id -> p.without(isVoid) })
      )

  /** R_batch of a group: the table of the last valid seal for that batch or an earlier one, else
    * the one it began with. Throws PlanLogMismatchException for a batch whose tables were trimmed.
    */
  def tableAt(group: Long, batch: Long): RoutingTable =
    if (batch < seals.since) throw PlanLogMismatchException.trimmed(batch, seals.since)
    else
      seals
        .tableAt(group, batch)
        .orElse(first.flatMap(_.tables.get(group)))
        .getOrElse(throw new NoSuchElementException(s"the plan log knows no group $group"))

  /** The table that a group has at a batch instead of `tableAt`, if the seal that was taken back is
    * in force after all; None if that makes no difference. What the state was written under decides
    * (rule 3).
    */
  def contestedAt(group: Long, batch: Long): Option[RoutingTable] = for {
    seal <- takenBack if seal.batch <= batch
    table <- seal.tables.get(group) if table.contentHash != tableAt(group, batch).contentHash
  } yield table

  /** A plan by its id. */
  def plan(id: String): Option[Plan] = plans.get(id).map(_.plan)

  /** The seal for a batch. */
  def sealAt(batch: Long): Option[Sealed] = seals.at(batch)

  /** The index of a plan's next step in a group: how many of them are sealed. */
  def nextStep(planId: String, group: Long): Int = plans.get(planId).fold(0)(_.next(group))

  /** The batch of each step of a plan that has one. */
  def sealedSteps(planId: String): Map[StepId, Long] = taken(planId).map { case (batch, s) =>
    s.step -> batch
  }.toMap

  /** The steps of a plan as they were taken, each with its batch. */
  def taken(planId: String): Vector[(Long, SealedStep)] =
    plans.get(planId).fold(Vector.empty[(Long, SealedStep)])(_.taken)

  /** The steps on demand of a group of which bins may be incomplete at a batch. */
  def incompleteAt(group: Long, batch: Long): Vector[SealedStep] =
    plans.valuesIterator.flatMap(_.incompleteAt(batch)).filter(_.step.group == group).toVector

  /** How a plan was ended, if it was before its last step. */
  def end(planId: String): Option[PlanEnd] = plans.get(planId).flatMap(_.end)

  /** Plans with steps still to be sealed, in the order they were submitted. */
  def open: Vector[Plan] = plans.valuesIterator.filter(_.isOpen).map(_.plan).toVector

  /** What must stay when the records are trimmed: the tables from a batch on, and of the plans
    * those that are open, that moved something since then, or that ended last.
    *
    * @param batch
    *   the first batch whose table may still be asked for
    */
  def trimmed(batch: Long): History = {
    var room = History.EndedKept
    val kept = plans.toVector.reverseIterator.filter { case (_, p) =>
      val isNeeded =
        p.isOpen || p.taken.exists(_._1 >= batch) || p.incompleteAt(Long.MaxValue).nonEmpty
      if (!isNeeded) room = room.without(p.plan)
      isNeeded || room.isLeft
    }.toVector
    copy(
      nextNumber = 0,
      untrimmed = 0,
      seals = seals.trimmed(batch),
      plans = VectorMap.from(kept.reverseIterator)
    )
  }
}

object History {
  val Empty: History = History(0, 0, Starts.Empty, Seals.Empty, VectorMap.empty, None)

  /** Records from 0 on. */
  def of(records: Iterable[LogRecord]): History = records.foldLeft(Empty)(_ + _)

  /** Records from a number on, the first of which stands for all before it. */
  def of(number: Long, records: Iterable[LogRecord]): History =
    records.foldLeft(Empty.copy(nextNumber = number))(_ + _)

  /** How many plans that are over are kept for those who look, and how many moves they may have. */
  private val EndedKept = Room(plans = 100, moves = 1 << 18)

  private final case class Room(plans: Int, moves: Int) {
    def isLeft: Boolean = plans >= 0 && moves >= 0
    def without(plan: Plan): Room = Room(plans - 1, moves - plan.movesCount)
  }
}
