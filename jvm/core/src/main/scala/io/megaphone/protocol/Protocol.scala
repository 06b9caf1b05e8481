// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import scala.annotation.tailrec

import io.megaphone.checkpoint.planlog.{History, LogRecord}
import io.megaphone.errors.InvalidPlanException
import io.megaphone.format.{ReplicaKey, StateName, StoreKey}
import io.megaphone.format.ExecutorAddress
import io.megaphone.plan.{Group, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode}
import io.megaphone.transfer.ReplicaDuty

/** The driver's half of the protocol, for one run of one query, as a pure state machine: events in,
  * commands out. No Spark, no thread, no clock.
  *
  *   1. A run starts: its start record is appended before its first batch is planned. ''Dies
  *      before:'' nothing happened. ''After:'' the next run appends its own. ''Number taken:''
  *      another driver is at work; the run reads on and tries the next number, unless that one has
  *      taken over.
  *   1. A plan is submitted: appended as an intention. ''Dies before:'' it was never accepted.
  *      ''After:'' the next run goes on with it.
  *   1. A batch is planned, and by that the version that it reads is settled. The next few steps of
  *      each plan are ''announced'': sources publish images, then tails; targets make copies ready.
  *   1. A step whose copies are ready, or whose patience is over, is ''sealed'': one atomic append
  *      gives it its batch, before any task of the batch runs. ''Dies before:'' the batch is
  *      replayed without the step. ''After:'' it is replayed with it. ''Not confirmed, or number
  *      taken:'' the batch fails and nothing goes on; a driver that was thought dead can seal
  *      nothing.
  *   1. The batch gets its tables. Asked again for the same batch, it gets the same: once handed
  *      out, never another.
  *   1. The next batch is planned: the step is done, its copies and blocks are named no more.
  *
  * A move that its target has no room for is left out of its step, with the reason; the others go
  * on. A plan that is cancelled keeps what was sealed and loses the rest; so does one that cannot
  * go on, which is cancelled with the reason. An executor that is lost takes its copies with it:
  * its duties go where the placement now says.
  */
object Protocol {

  /** @param windowSteps
    *   steps of a plan and group that are announced at once
    * @param patienceBatches
    *   batches after which an announced step is sealed even if its copies are not ready: the files
    *   serve then
    * @param gapBatches
    *   the least distance of two moves of one bin
    */
  final case class Settings(windowSteps: Int = 4, patienceBatches: Long = 10, gapBatches: Long = 3)

  /** What the driver knows when it plans a batch.
    *
    * @param isOwn
    *   whether this run itself wrote the batch's offset log: only then may the batch take a new
    *   step
    * @param names
    *   by operator and store: id of each worker at the version that the batch reads; empty under
    *   checkpoint format v1
    * @param placement
    *   by group: executor of each worker, as wanted, for as many workers as the group has or an
    *   announced step will give it
    */
  final case class Batch(
      number: Long,
      isOwn: Boolean,
      names: Map[(Long, String), Vector[String]],
      placement: Map[Long, Vector[String]]
  )

  /** Bins that travel from one worker to another. */
  final case class Route(source: Int, target: Int, bins: Vector[Int])

  /** An announced step: its bytes are on their way.
    *
    * @param since
    *   the batch that announced it, whose settled state the images are of
    * @param images
    *   names of the images, by operator, store and source worker
    * @param ready
    *   version that each copy has reached, and the executor that has it
    * @param refused
    *   copies that there is no room for: the reason, and the executor that gave it
    */
  final case class Announced(
      id: StepId,
      step: Step,
      mode: TransferMode,
      since: Long,
      images: Map[(Long, String, Int), StateName],
      ready: Map[ReplicaKey, (Long, String)] = Map.empty,
      refused: Map[ReplicaKey, (String, String)] = Map.empty
  ) {

    /** Without what an executor told that is lost. */
    def without(executor: String): Announced = copy(
      ready = ready.filterNot(_._2._2 == executor),
      refused = refused.filterNot(_._2._2 == executor)
    )

    /** Without the moves that there is no room for. */
    def withRoom(table: RoutingTable): Announced = {
      val full = refused.keySet.map(c => c.source -> c.target)
      copy(step =
        step.copy(moves = step.moves.filterNot(m => full(table.workerOf(m.bin) -> m.target)))
      )
    }

    /** Why moves are left out, if some are. */
    def noRoom: Option[String] = refused.headOption.map { case (copy, (reason, executor)) =>
      s"Executor $executor has no room for what is to move to worker ${copy.target}: $reason"
    }
  }

  /** What a batch must agree on.
    *
    * @param sealedSteps
    *   steps that take effect at this batch
    * @param announced
    *   steps that are to come
    */
  final case class Decision(
      batch: Batch,
      before: Map[Long, RoutingTable],
      after: Map[Long, RoutingTable],
      sealedSteps: Vector[Announced],
      announced: Vector[Announced]
  )

  final case class State(
      run: String,
      settings: Settings,
      groups: Vector[Group],
      firstBatch: Option[Long],
      history: History,
      announced: Vector[Announced],
      decision: Option[Decision],
      pending: Option[(LogRecord, Decision)]
  ) {
    private[megaphone] def change(step: String)(f: Announced => Announced): State =
      copy(announced = announced.map(a => if (a.id.toString == step) f(a) else a))

    def group(id: Long): Group =
      groups.find(_.id == id).getOrElse(throw new NoSuchElementException(s"no group $id"))
  }

  sealed trait Event

  /** The run is about to plan `firstBatch`; `history` is the log as read, before it was seen that
    * `firstBatch` is not committed: what a newer run does after that, the start record's number
    * shows.
    */
  final case class RunStarting(firstBatch: Long, checkpointFormat: Int, bins: Int, history: History)
      extends Event
  final case class BatchPlanning(batch: Batch) extends Event
  final case class PlanSubmitted(plan: Plan) extends Event
  final case class PlanCancelled(planId: String) extends Event

  /** The record that the last `Append` asked for is in the log. */
  final case class Appended(record: LogRecord) extends Event

  /** It is not, or that is not known. `found` is what stands at its number, if known. */
  final case class NotAppended(record: LogRecord, found: Option[LogRecord]) extends Event
  final case class ReplicaReady(copy: ReplicaKey, version: Long, executor: String) extends Event

  /** There is no room for a copy, for now. */
  final case class ReplicaRefused(copy: ReplicaKey, reason: String, executor: String) extends Event
  final case class ExecutorLost(executor: String) extends Event

  sealed trait Command

  /** Append this record at the history's next number, and tell how it went. */
  final case class Append(record: LogRecord) extends Command

  /** Give the batch these tables. */
  final case class HandOut(decision: Decision) extends Command

  /** Fail the batch. */
  final case class Fail(reason: String) extends Command

  private[megaphone] val Misfit =
    "Its next step does not fit where the bins are since the query was started again further back."
  private val Full = "Workers that were to go have bins left that there was no room for elsewhere."

  def start(run: String, groups: Vector[Group], settings: Settings): State =
    State(run, settings, groups, None, History.Empty, Vector.empty, None, None)

  def apply(state: State, event: Event): (State, Vector[Command]) = event match {
    case RunStarting(firstBatch, checkpointFormat, bins, history) =>
      val tables = state.groups.map { g =>
        g.id -> (if (history.isEmpty) RoutingTable.roundRobin(bins, g.firstWorkers)
                 else history.tableAt(g.id, firstBatch - 1))
      }.toMap
      (
        state.copy(history = history, firstBatch = Some(firstBatch)),
        Vector(
          Append(
            LogRecord.Started(state.run, firstBatch, checkpointFormat, bins, state.groups, tables)
          )
        )
      )

    case BatchPlanning(batch) =>
      state.decision match {
        case Some(made) if made.batch.number == batch.number => (state, Vector(HandOut(made)))
        case _ => plan(state, batch)
      }

    case PlanSubmitted(intention) => (state, Vector(Append(LogRecord.Submitted(intention))))
    case PlanCancelled(planId) => (state, Vector(Append(LogRecord.Cancelled(planId))))

    case Appended(record) =>
      val next = state.copy(history = state.history + record)
      state.pending match {
        case Some((awaited, decision)) if awaited == record =>
          (
            next.copy(pending = None, decision = Some(decision), announced = decision.announced),
            Vector(HandOut(decision))
          )
        case _ => (next, Vector.empty)
      }

    case NotAppended(record: LogRecord.Sealed, _) =>
      (
        state.copy(pending = None),
        Vector(
          Fail(
            s"The seal of a step for batch ${record.batch} could not be written to the plan log, so the batch must not go on; another run of the query may be at work."
          )
        )
      )
    case NotAppended(record: LogRecord.Started, Some(found)) => readOn(state, record, found)
    case NotAppended(_, _) =>
      (state, Vector(Fail("A record could not be written to the plan log.")))

    case ReplicaReady(copy, version, executor) =>
      (
        state.change(copy.step)(a =>
          a.copy(ready = a.ready + (copy -> (version -> executor)), refused = a.refused - copy)
        ),
        Vector.empty
      )
    case ReplicaRefused(copy, reason, executor) =>
      (
        state.change(copy.step)(a => a.copy(refused = a.refused + (copy -> (reason -> executor)))),
        Vector.empty
      )

    case ExecutorLost(executor) =>
      (state.copy(announced = state.announced.map(_.without(executor))), Vector.empty)
  }

  /** Another record stands where the start record should. The run reads on, unless another run has
    * taken the query over or is ahead of it: that one's steps would be void although they ran.
    */
  private def readOn(
      state: State,
      record: LogRecord.Started,
      found: LogRecord
  ): (State, Vector[Command]) = found match {
    case own if own == record => apply(state, Appended(record))
    case other: LogRecord.Started =>
      (
        state,
        Vector(
          Fail(
            s"Run ${other.run} of the query has started from batch ${other.firstBatch} meanwhile."
          )
        )
      )
    case other: LogRecord.Sealed if other.batch > record.firstBatch =>
      (state, Vector(Fail(s"Run ${other.run} of the query is at work, at batch ${other.batch}.")))
    case _ => (state.copy(history = state.history + found), Vector(Append(record)))
  }

  private def plan(state: State, batch: Batch): (State, Vector[Command]) = {
    val n = batch.number
    val before = state.groups.map(g => g.id -> state.history.tableAt(g.id, n - 1)).toMap
    val existing = state.history.sealAt(n)
    val current = existing.fold(before)(_.tables)
    val open = fitting(state, batch, current, state.history.open)
    val stillOpen = state.announced.filter(a =>
      open.exists(_.id == a.id.planId) && !state.history.sealedSteps(a.id.planId).contains(a.id)
    )
    val due =
      if (existing.isDefined || !mayStep(state, batch)) Vector.empty
      else state.groups.flatMap(g => dueStep(state, batch, g, before(g.id), open))
    val after = due.foldLeft(current) { (tables, a) =>
      tables.updated(
        a.id.group,
        tables(a.id.group).moved(a.step.moves, state.history.nextNumber, a.step.workers)
      )
    }
    val rest = stillOpen.filterNot(a => due.exists(_.id == a.id))
    val upcoming = for {
      group <- state.groups
      (p, left) <- inTurn(state, open, group.id, due.map(_.id)).toVector
      (id, step) <- left.take(if (p.mode == TransferMode.Direct) 1 else state.settings.windowSteps)
    } yield rest
      .find(_.id == id)
      .getOrElse(
        Announced(
          id,
          step,
          p.mode,
          n,
          imagesOf(state, batch, group.id, before(group.id), after(group.id), step)
        )
      )
    val decision = Decision(batch, before, after, due, upcoming)
    val cancels = state.history.open
      .filterNot(open.contains)
      .map(p => Append(LogRecord.Cancelled(p.id, Some(whyNot(state, p)))))
    if (due.isEmpty)
      (state.copy(decision = Some(decision), announced = upcoming), cancels :+ HandOut(decision))
    else {
      val seal = LogRecord.Sealed(
        state.run,
        n,
        due.map(a => SealedStep(a.id, a.step.moves, a.noRoom)),
        after
      )
      (state.copy(pending = Some(seal -> decision)), cancels :+ Append(seal))
    }
  }

  /** Rule 3: a batch takes a step only if this run alone can have planned it. A first batch that
    * this run logged, and from which another run has started since, may be running there with the
    * tables as they are.
    */
  private def mayStep(state: State, batch: Batch): Boolean =
    batch.isOwn && !(state.firstBatch.contains(batch.number) && state.history.starts.exists(s =>
      s.run != state.run && s.firstBatch >= batch.number
    ))

  /** The plan whose turn it is in a group, the one submitted first, and its steps still to be
    * sealed. There are several only where a restart further back has opened a plan again.
    */
  private def inTurn(
      state: State,
      open: Vector[Plan],
      group: Long,
      due: Seq[StepId]
  ): Option[(Plan, Vector[(StepId, Step)])] =
    open.iterator
      .map { p =>
        val sealedIds = state.history.sealedSteps(p.id)
        p -> p.steps
          .getOrElse(group, Vector.empty)
          .zipWithIndex
          .map { case (s, i) => StepId(p.id, group, i) -> s }
          .filterNot { case (id, _) =>
            sealedIds.contains(id) || due.contains(id)
          }
      }
      .find(_._2.nonEmpty)

  /** Plans without those whose next step does not fit the table: after a restart further back than
    * the plan's submission, or where workers that were to go keep bins that there was no room for.
    * Such a plan is cancelled: it can never go on.
    */
  @tailrec
  private def fitting(
      state: State,
      batch: Batch,
      tables: Map[Long, RoutingTable],
      open: Vector[Plan]
  ): Vector[Plan] = {
    val next = for {
      group <- state.groups.iterator
      (plan, left) <- inTurn(state, open, group.id, Nil)
      (id, step) = left.head
    } yield (
      plan,
      tables(group.id),
      taken(state, batch, group, tables(group.id), id).fold(step)(_.step)
    )
    next.collectFirst { case (plan, table, step) if !fits(table, step) => plan } match {
      case None => open
      case Some(misfit) => fitting(state, batch, tables, open.filterNot(_.id == misfit.id))
    }
  }

  private def fits(table: RoutingTable, step: Step): Boolean =
    try { table.moved(step.moves, table.number, step.workers); true }
    catch { case _: InvalidPlanException => false }

  private def whyNot(state: State, plan: Plan): String = {
    val noRoom = state.announced.filter(_.id.planId == plan.id).flatMap(_.noRoom) ++ state.history
      .taken(plan.id)
      .flatMap(_._2.noRoom)
    noRoom.headOption.fold(Misfit)(reason => s"$Full $reason")
  }

  /** Rule 7: the step of a group that this batch takes, if any. */
  private def dueStep(
      state: State,
      batch: Batch,
      group: Group,
      table: RoutingTable,
      open: Vector[Plan]
  ): Option[Announced] =
    inTurn(state, open, group.id, Nil).flatMap { case (p, left) =>
      val (id, step) = left.head
      val isRested = step.moves.forall(m =>
        state.history
          .lastMoved(group.id, m.bin)
          .forall(_ + state.settings.gapBatches <= batch.number)
      )
      if (!isRested) None
      else if (state.announced.exists(_.id == id)) taken(state, batch, group, table, id)
      else if (state.firstBatch.contains(batch.number))
        Some(
          Announced(id, step, p.mode, batch.number, Map.empty)
        ) // in memory is nothing yet: now is cheapest
      else None
    }

  /** An announced step as it can be taken now: all of it where its copies are ready; else, its
    * patience over, without what there is no room for, which the files would need as well. A target
    * that had no room for a move of the same plan is not waited for again.
    */
  private def taken(
      state: State,
      batch: Batch,
      group: Group,
      table: RoutingTable,
      id: StepId
  ): Option[Announced] =
    state.announced.find(_.id == id).flatMap { a =>
      lazy val full = fullTargets(state, a.id)
      val isOver =
        a.mode == TransferMode.Direct || batch.number - a.since >= state.settings.patienceBatches
      val isTaken = isOver || copies(state.run, a, batch, group, table).forall {
        case (copy, _, _) =>
          if (a.refused.contains(copy)) full(copy.target)
          else a.ready.get(copy).exists(_._1 >= batch.number - 2)
      }
      if (isTaken) Some(a.withRoom(table)) else None
    }

  private def fullTargets(state: State, id: StepId): Set[Int] =
    (for {
      (_, s) <- state.history.taken(id.planId) if s.step.group == id.group && s.noRoom.isDefined
      move <- state.history.plans
        .find(_.id == id.planId)
        .toVector
        .flatMap(_.steps(s.step.group)(s.step.index).moves) if !s.moves.contains(move)
    } yield move.target).toSet

  /** The copies that a step needs: one for each store, source and target that are not on the same
    * executor.
    */
  private def copies(
      run: String,
      a: Announced,
      batch: Batch,
      group: Group,
      table: RoutingTable
  ): Seq[(ReplicaKey, Vector[Int], (Long, String))] =
    for {
      route <- routes(a.step, table, batch.placement.getOrElse(group.id, Vector.empty))
      operator <- group.operators
      store <- operator.stores
    } yield (
      ReplicaKey(StoreKey(run, operator.id, store), route.source, route.target, a.id.toString),
      route.bins,
      (operator.id, store)
    )

  /** What of a step travels between executors, by source and target worker. A move between two
    * workers of one executor takes no bytes: the target takes the bins over where they lie.
    *
    * @param table
    *   that the step begins with
    * @param executors
    *   executor of each worker, as far as it is known
    */
  def routes(step: Step, table: RoutingTable, executors: Vector[String]): Vector[Route] = {
    def isOnOne(source: Int, target: Int) =
      executors.lift(source).isDefined && executors.lift(source) == executors.lift(target)
    step.moves.groupBy(m => (table.workerOf(m.bin), m.target)).toVector.sortBy(_._1).collect {
      case ((source, target), moves) if source != target && !isOnOne(source, target) =>
        Route(source, target, moves.map(_.bin))
    }
  }

  private def imagesOf(
      state: State,
      batch: Batch,
      groupId: Long,
      before: RoutingTable,
      after: RoutingTable,
      step: Step
  ): Map[(Long, String, Int), StateName] =
    (for {
      operator <- state.group(groupId).operators
      store <- operator.stores
      source <- step.moves.map(m => after.workerOf(m.bin)).distinct
      if source < before.workers
    } yield (operator.id, store, source) -> nameOf(batch, operator.id, store, source)).toMap

  private def nameOf(batch: Batch, operator: Long, store: String, worker: Int): StateName =
    StateName(
      batch.number,
      batch.names.get((operator, store)).flatMap(_.lift(worker)).getOrElse(StateName.FixedId)
    )

  /** What each executor is to have ready: rule 21, the complete list. A copy that no duty names is
    * dropped.
    *
    * @param addressOf
    *   where an executor's blocks are to be had, if it is known
    */
  def duties(
      state: State,
      addressOf: String => Option[ExecutorAddress]
  ): Vector[(String, ReplicaDuty)] =
    for {
      decision <- state.decision.toVector
      a <- decision.announced.map(d => state.announced.find(_.id == d.id).getOrElse(d))
      if a.mode == TransferMode.Prepared
      group = state.group(a.id.group)
      executors = decision.batch.placement.getOrElse(group.id, Vector.empty)
      (copy, bins, (operator, store)) <- copies(
        state.run,
        a,
        decision.batch,
        group,
        decision.after(group.id)
      )
      executor <- executors.lift(copy.target).toVector
      image <- a.images.get((operator, store, copy.source)).toVector
    } yield {
      val settled = nameOf(decision.batch, operator, store, copy.source)
      executor -> ReplicaDuty(
        copy,
        bins,
        decision.after(group.id).bins,
        image,
        settled,
        decision.before(group.id).contentHash,
        executors.lift(copy.source).flatMap(addressOf)
      )
    }

  /** Steps whose blocks and copies may still be used: those announced, and those sealed for the
    * batch last planned.
    */
  def liveSteps(state: State): Set[StepId] =
    state.decision.fold(Set.empty[StepId])(d => (d.sealedSteps ++ d.announced).map(_.id).toSet)
}
