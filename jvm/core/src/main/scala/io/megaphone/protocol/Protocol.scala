// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import io.megaphone.checkpoint.planlog.{History, LogRecord, Verdict}
import io.megaphone.format.{StoreId, VersionIds}
import io.megaphone.plan.{Group, Move, Plan, RoutingTable, StepId}
import io.megaphone.state.ReplicaKey

/** The driver's part of the protocol, for one run of one query, as a pure state machine: events in,
  * commands out. No Spark, no thread, no clock.
  *
  *   1. A run starts: it appends its start record before its first batch is planned. ''Dies
  *      before:'' nothing happened. ''Dies after:'' the next run appends its own. ''Number taken:''
  *      another driver is at work; the run reads on and tries the next number, unless the other
  *      driver has taken the query over.
  *   1. A plan is submitted: it is appended. ''Dies before:'' it was never accepted. ''Dies
  *      after:'' the next run goes on with it. ''Not confirmed:'' the submission fails, and the
  *      number is read before the next append; if the plan is there, it counts.
  *   1. A batch is planned, and by that the version that it reads is settled. The next steps of
  *      each plan are ''announced'': sources publish images, if these are not too large, and a tail
  *      after each commit; targets make replicas.
  *   1. A step whose replicas are ready, or whose patience is over, is ''sealed'': one atomic
  *      append gives it its batch, before any task of the batch runs. ''Dies before:'' the batch is
  *      replayed without the step. ''Dies after:'' it is replayed with it. ''Not confirmed, or
  *      number taken:'' the batch fails and nothing goes on, so a driver that was thought dead can
  *      seal nothing.
  *   1. The batch gets its tables. If it asks again, it gets the same: once handed out, never
  *      another.
  *   1. The next batch is planned: the step is done, and no duty names its replicas and blocks.
  *   1. The log is ''trimmed'' from time to time: one record is appended that stands for all before
  *      it. ''Not confirmed:'' the number is read before the next append. ''Number taken:'' the
  *      batch fails, for another driver is at work.
  *
  * A batch that was sealed and never committed is replayed with its step. If `retries` replays have
  * failed as well, the next run takes the seal back with its start record, and goes on without the
  * step. An older run may have been slow rather than dead, and commit the batch with the step after
  * all: the state's files show it to the run after that, which then restores the seal.
  *
  * A move that its target has no room for is left out of its step, with the reason; the others go
  * on. A plan that is cancelled keeps what was sealed and loses the rest. So does a plan that
  * cannot go on, which is cancelled with the reason. A lost executor takes its replicas with it:
  * its duties go where the placement now says. [[Planning]] has the rules of step 3 to 5,
  * [[Duties]] what follows from a decision.
  */
object Protocol {

  /** @param windowSteps
    *   steps of a plan and group that are announced at once
    * @param windowBytes
    *   bytes of state that they move, about. A step that moves more is announced alone, and so is
    *   one of which it is not known, unless there is no limit, which Long.MaxValue stands for
    * @param patienceBatches
    *   batches without progress of the run's copies after which an announced step is sealed even if
    *   its replicas are not ready: the files serve then
    * @param gapBatches
    *   the least distance of two moves of one bin
    * @param stepsPerBatch
    *   the most consecutive steps of a plan that one batch takes in a group
    * @param retries
    *   how many runs replay a sealed batch that was not committed; the next one goes on without its
    *   steps, under checkpoint format 2
    */
  final case class Settings(
      windowSteps: Int = 4,
      windowBytes: Long = Long.MaxValue,
      patienceBatches: Long = 10,
      gapBatches: Long = 3,
      stepsPerBatch: Int = 1,
      retries: Int = 2
  )

  /** What the driver knows when it plans a batch.
    *
    * @param isOwn
    *   whether this run itself wrote the batch's offset log: only then may the batch take a new
    *   step
    * @param ids
    *   of each store's workers at the version that the batch reads
    * @param placement
    *   by group: id of each worker's executor, as wanted, for as many workers as the group has or
    *   an open plan will give it
    * @param stateBytes
    *   by group and worker: bytes of its state in all stores, as far as they are known
    * @param stoodBy
    *   by group: the executors that stand by for each worker with all of its state, of a version
    *   that one or two tails lead on from
    * @param imageBytesMax
    *   how many bytes of images an executor can send and take in time
    */
  final case class Batch(
      number: Long,
      isOwn: Boolean,
      ids: Map[StoreId, VersionIds],
      placement: Map[Long, Vector[String]],
      stateBytes: Map[(Long, Int), Long] = Map.empty,
      stoodBy: Map[Long, Vector[Set[String]]] = Map.empty,
      imageBytesMax: Long = Long.MaxValue
  ) {
    def idsOf(store: StoreId): VersionIds = ids.getOrElse(store, VersionIds.Fixed)
    def executorsOf(group: Long): Vector[String] = placement.getOrElse(group, Vector.empty)

    /** Where a group's state is. */
    def whereabouts(group: Long): Whereabouts =
      Whereabouts(executorsOf(group), stoodBy.getOrElse(group, Vector.empty))

    /** How many bytes moves take along, if the bins of a worker are alike; None if the bytes of one
      * of the workers are not known, as in a run's first batch.
      *
      * @param counts
      *   how many bins each worker had when its bytes were counted
      */
    def bytesOf(
        group: Long,
        moves: Vector[Move],
        table: RoutingTable,
        counts: Array[Int]
    ): Option[Long] = {
      val leaving = new Array[Int](table.workers) // bins, by worker
      moves.foreach(m => leaving(table.workerOf(m.bin)) += 1)
      val sources = leaving.indices.iterator.filter(leaving(_) > 0).toVector
      val each = sources.flatMap { worker =>
        bytesOfBin(group, worker, counts).map(bytes => (bytes * leaving(worker)).toLong)
      }
      Option.when(each.size == sources.size)(each.sum)
    }

    /** How many bytes a bin of a worker has, if they are alike; None if it is not known. */
    def bytesOfBin(group: Long, worker: Int, counts: Array[Int]): Option[Double] =
      stateBytes.get((group, worker)).map { bytes =>
        bytes.toDouble / math.max(1, if (worker < counts.length) counts(worker) else 0)
      }
  }

  /** What a batch must agree on.
    *
    * @param sealedSteps
    *   steps that take effect at this batch
    * @param announced
    *   steps that are to come
    * @param incomplete
    *   by group: the bins that may be incomplete
    */
  final case class Decision(
      batch: Batch,
      before: Map[Long, RoutingTable],
      after: Map[Long, RoutingTable],
      sealedSteps: Vector[Announced],
      announced: Vector[Announced],
      incomplete: Map[Long, Set[Int]] = Map.empty
  ) {
    def hasIncomplete: Boolean = incomplete.valuesIterator.exists(_.nonEmpty)
  }

  /** @param pending
    *   a seal that is being appended, and the decision that holds once it is
    * @param unconfirmed
    *   own records whose append was not confirmed: each may stand at the next number, or not
    * @param progressAt
    *   the last batch in which executors copied more for announced steps than they ever had, or
    *   came nearer to a source; −1 if there was none
    * @param wholeAt
    *   by store and worker: the newest version at which an executor had all of its bins complete
    * @param restsHeldUp
    *   by executor: the workers there, by store, the rest of whose bins does not come, and why
    * @param failing
    *   by executor: the replicas that it keeps failing to prepare, and the last reason
    */
  final case class State(
      run: String,
      settings: Settings,
      groups: Vector[Group],
      firstBatch: Option[Long],
      history: History,
      announced: Vector[Announced],
      decision: Option[Decision],
      pending: Option[(LogRecord, Decision)],
      unconfirmed: Vector[LogRecord],
      progressAt: Long = -1,
      wholeAt: Map[(StoreId, Int), Long] = Map.empty,
      restsHeldUp: Map[String, Map[(StoreId, Int), String]] = Map.empty,
      failing: Map[String, Map[ReplicaKey, String]] = Map.empty
  ) {
    def group(id: Long): Group = groups.find(_.id == id).getOrElse(unknownGroup(id))

    private[protocol] def withUnconfirmed(record: LogRecord): State =
      if (unconfirmed.contains(record)) this else copy(unconfirmed = unconfirmed :+ record)

    /** The table that the newest batch of a group has. */
    def currentTable(group: Long): RoutingTable = history.tableAt(group, Long.MaxValue)

    /** The tables that the next batch begins with. */
    def tables(batch: Long): Map[Long, RoutingTable] =
      groups.map(g => g.id -> history.tableAt(g.id, batch)).toMap

    private def unknownGroup(id: Long) = throw new NoSuchElementException(s"no group $id")
  }

  sealed trait Event

  /** The run is about to plan `firstBatch`. `history` is the log as read before the look that
    * showed `firstBatch` uncommitted: what a newer run does after that, the start record's number
    * shows.
    *
    * @param isRestored
    *   whether the state that `firstBatch` reads was written under the seal that the run before
    *   took back
    */
  final case class RunStarting(
      firstBatch: Long,
      checkpointFormat: Int,
      bins: Int,
      history: History,
      isRestored: Boolean = false
  ) extends Event
  final case class BatchPlanning(batch: Batch) extends Event
  final case class PlanSubmitted(plan: Plan) extends Event
  final case class PlanCancelled(planId: String) extends Event

  /** The log has grown: what no batch from this one on needs may go. */
  final case class Trimming(batch: Long) extends Event

  /** The record that the last `Append` asked for is in the log. */
  final case class Appended(record: LogRecord) extends Event

  /** Another record stands at its number. */
  final case class NumberTaken(record: LogRecord, found: LogRecord) extends Event

  /** Another run has gone on: the record counts only if that run has read it. */
  final case class Overtaken(record: LogRecord) extends Event

  /** It is not known whether the record is in the log. */
  final case class NotConfirmed(record: LogRecord) extends Event

  /** An own record whose append was not confirmed stands at the next number. */
  final case class Confirmed(record: LogRecord) extends Event

  /** Another run's record stands where own records might have: none of them is in the log. */
  case object Refuted extends Event

  /** An executor reports how far a replica is, or that what is surveyed instead is so. */
  final case class ReplicaReported(replica: ReplicaKey, step: StepId, state: ReplicaState)
      extends Event
  final case class ExecutorLost(executor: String) extends Event

  /** An executor has a worker's state of a store at a version, and all bins of it are complete. */
  final case class WorkerWhole(store: StoreId, worker: Int, version: Long) extends Event

  /** An executor does not get the rest of the bins of these workers, and of no others, each with
    * the reason.
    */
  final case class RestsHeldUp(executor: String, workers: Map[(StoreId, Int), String]) extends Event

  /** An executor keeps failing to prepare these replicas, and no others, each with the reason. */
  final case class PreparationsFailing(executor: String, replicas: Map[ReplicaKey, String])
      extends Event

  /** Executors have copied more for announced steps than they ever had, or a replica has come
    * nearer to its source.
    */
  case object CopiesProgressed extends Event

  sealed trait Command

  /** Append this record at the history's next number, and report the outcome. */
  final case class Append(record: LogRecord) extends Command

  /** Give the batch these tables. */
  final case class HandOut(decision: Decision) extends Command

  /** Fail the batch, or the user's call. */
  final case class Fail(reason: String) extends Command

  def start(run: String, groups: Vector[Group], settings: Settings): State =
    State(run, settings, groups, None, History.Empty, Vector.empty, None, None, Vector.empty)

  def apply(state: State, event: Event): (State, Vector[Command]) = event match {
    case RunStarting(firstBatch, checkpointFormat, bins, history, isRestored) =>
      val restored = history.takenBack.filter(_ => isRestored).fold(NoTables)(_.tables)
      val tables = state.groups.map { g =>
        val before =
          if (history.isEmpty) RoutingTable.roundRobin(bins, g.firstWorkers)
          else restored.getOrElse(g.id, history.tableAt(g.id, firstBatch - 1))
        g.id -> before
      }.toMap
      val verdict =
        if (isRestored) Verdict.Restores
        else if (checkpointFormat == 2) verdictOn(history, firstBatch, state.settings.retries)
        else Verdict.None // a late task of the batch as it was would replace files of the new one
      val record = LogRecord
        .Started(state.run, firstBatch, checkpointFormat, bins, state.groups, tables, verdict)
      (
        state.copy(history = history, firstBatch = Some(firstBatch)),
        Vector(Append(record))
      )

    case BatchPlanning(batch) =>
      state.decision match {
        case Some(made) if made.batch.number == batch.number => (state, Vector(HandOut(made)))
        case _ if state.unconfirmed.exists(_.isInstanceOf[LogRecord.Sealed]) =>
          (state, Vector(Fail(SealNotConfirmed))) // its tables may be in force
        case _ => Planning(state, batch)
      }

    case PlanSubmitted(plan) => (state, Vector(Append(LogRecord.Submitted(plan))))
    case PlanCancelled(planId) => (state, Vector(Append(LogRecord.Cancelled(planId))))
    case Trimming(batch) =>
      // One that was not confirmed is offered again: nothing has been added since.
      val offered = state.unconfirmed.collectFirst { case r: LogRecord.Trimmed => r }
      def made = LogRecord.Trimmed(state.run, state.history.trimmed(batch))
      (state, Vector(Append(offered.getOrElse(made))))

    case Appended(record) =>
      // The numbers of unconfirmed records are taken now: what is not there by now never will be.
      val next = state.copy(history = state.history + record, unconfirmed = Vector.empty)
      state.pending match {
        case Some((awaited, decision)) if awaited == record =>
          val handedOut = next
            .copy(pending = None, decision = Some(decision), announced = decision.announced)
          (handedOut, Vector(HandOut(decision)))
        case _ => (next, Vector.empty)
      }

    case NumberTaken(record, found) if found == record => apply(state, Appended(record))
    case NumberTaken(record, found) if state.unconfirmed.contains(found) =>
      val confirmed = apply(state, Confirmed(found))._1
      // One that stands for all before it was made without the record that was found.
      val isStale = record.isInstanceOf[LogRecord.Trimmed]
      (confirmed, if (isStale) Vector.empty else Vector(Append(record)))
    case NumberTaken(record: LogRecord.Started, found) => readOn(state, record, found)
    case NumberTaken(record: LogRecord.Sealed, found) => sealFails(state, record, takenOver(found))
    case NumberTaken(_, found) => (state, Vector(Fail(takenOver(found))))
    case Overtaken(record: LogRecord.Sealed) => sealFails(state, record, s"$GoneOn $MayCount")
    case Overtaken(_) => (state, Vector(Fail(s"$GoneOn $MayCount")))

    case NotConfirmed(record: LogRecord.Sealed) =>
      sealFails(state.withUnconfirmed(record), record, SealNotConfirmed)
    // No batch and no user waits for these: they follow again from the next batch.
    case NotConfirmed(record @ (_: LogRecord.Trimmed | LogRecord.Cancelled(_, Some(_)))) =>
      (state.withUnconfirmed(record), Vector.empty)
    case NotConfirmed(record) =>
      (state.withUnconfirmed(record), Vector(Fail(NotKnown)))
    case Confirmed(record) =>
      // A trimming that was offered for this number is not there, and lacks what was found.
      val rest =
        state.unconfirmed.filterNot(r => r == record || r.isInstanceOf[LogRecord.Trimmed])
      (state.copy(history = state.history + record, unconfirmed = rest), Vector.empty)

    case Refuted => (state.copy(unconfirmed = Vector.empty), Vector.empty)

    case ReplicaReported(replica, step, reported) =>
      val announced =
        state.announced.map(a => if (a.id == step) a.withReplica(replica, reported) else a)
      (state.copy(announced = announced), Vector.empty)

    case ExecutorLost(executor) =>
      val announced = state.announced.map(_.without(executor))
      val next = state.copy(
        announced = announced,
        restsHeldUp = state.restsHeldUp - executor,
        failing = state.failing - executor
      )
      (next, Vector.empty)

    case WorkerWhole(store, worker, version) =>
      val whole = state.wholeAt.updatedWith((store, worker))(v => Some(version.max(v.getOrElse(0))))
      (state.copy(wholeAt = whole), Vector.empty)

    case RestsHeldUp(executor, workers) =>
      (state.copy(restsHeldUp = state.restsHeldUp + (executor -> workers)), Vector.empty)

    case PreparationsFailing(executor, replicas) =>
      (state.copy(failing = state.failing + (executor -> replicas)), Vector.empty)

    case CopiesProgressed =>
      (state.copy(progressAt = state.decision.fold(-1L)(_.batch.number)), Vector.empty)
  }

  /** Whether the run goes on without the steps that its first batch was sealed with. */
  private def verdictOn(history: History, firstBatch: Long, retries: Int): Verdict =
    history.sealAt(firstBatch) match {
      case Some(seal) if seal.steps.nonEmpty && history.starts.retriesOf(firstBatch) >= retries =>
        val steps = seal.steps.map(_.step).mkString(", ")
        Verdict.TakesBack(
          s"Batch $firstBatch was started ${retries + 1} times with step $steps and is not " +
            "committed, so the query goes on without it: submit the plan again once the cause, " +
            "which the query's log has, is mended."
        )
      case _ => Verdict.None
    }

  private def sealFails(
      state: State,
      seal: LogRecord.Sealed,
      reason: String
  ): (State, Vector[Command]) = (
    state.copy(pending = None),
    Vector(
      Fail(s"Batch ${seal.batch} cannot go on with its step. $reason")
    )
  )

  /** Another record stands where the start record should. The run reads on, unless another run has
    * taken the query over or is ahead of it: that one's steps would be void although they ran.
    */
  private def readOn(
      state: State,
      record: LogRecord.Started,
      found: LogRecord
  ): (State, Vector[Command]) = found match {
    case _: LogRecord.Started => (state, Vector(Fail(takenOver(found))))
    case other: LogRecord.Sealed if other.batch > record.firstBatch =>
      (state, Vector(Fail(takenOver(found))))
    case _ => (state.copy(history = state.history + found), Vector(Append(record)))
  }

  private def takenOver(found: LogRecord): String = found match {
    case other: LogRecord.Started =>
      s"The plan log shows that run ${other.run} of the query has started from batch " +
        s"${other.firstBatch} meanwhile, so this run must not go on."
    case other: LogRecord.Sealed =>
      s"The plan log shows that run ${other.run} of the query is at work, at batch " +
        s"${other.batch}, so this run must not go on."
    case _ => GoneOn
  }

  private val MayCount =
    "What it was about to write counts only if that run has read it: look at its plans()."
  private val NoTables = Map.empty[Long, RoutingTable]
  private val GoneOn =
    "The plan log shows that another run of the query is at work, so this run must not go on."

  private val SealNotConfirmed =
    "Writing it was not confirmed, so the batch must not go on; when the query starts again, the " +
      "batch is replayed with the step if the seal is there, and without the step if not."
  private val NotKnown =
    "It is not known whether the record is in the plan log, because writing it was not " +
      "confirmed; look at plans() again after the next batch."
}
