// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentLinkedQueue

import io.megaphone.checkpoint.{Recovery, Settled}
import io.megaphone.checkpoint.planlog.{History, PlanLog}
import io.megaphone.errors.{PlanRefusedException, StepNotSealedException}
import io.megaphone.format.{StoreId, VersionIds, WorkerId}
import io.megaphone.pace.TransferRate
import io.megaphone.placement.Seat
import io.megaphone.plan.{Group, Plan, RoutingTable}
import io.megaphone.protocol.{Duties, Protocol, ReplicaState}
import io.megaphone.state.{ForStep, ReplicaKey}
import io.megaphone.transfer.{ReplicaDuty, StandbyDuty}

/** The driver's part of the runtime, for one run of one query: feeds the protocol with what
  * happens, and carries out what it commands. It has no thread and no clock, and knows no Spark:
  * the host tells it what it sees, and does what a [[BatchPlan]] says.
  *
  *   1. `start` reads the plan log, looks at the commit log after that, and appends the start
  *      record.
  *   1. `plan` settles the version that the batch reads, places the workers, may seal steps, and
  *      returns what the batch's plan carries.
  *   1. `submit` and `cancel` append what users ask for; `reported` and `committed` take what
  *      executors and tasks report. All reports may be lost, late or repeated.
  *
  * The steps, and what happens if the driver dies at one of them, are those of
  * [[io.megaphone.protocol.Protocol]].
  *
  * Threads: one at a time, under the host's lock. `snapshot`, `groups`, `committed`, `live` and
  * `ordersFor` may be called by any thread at any time, so that no executor waits for the plan log.
  * So may all of `footprint`.
  *
  * @param run
  *   Spark's run id
  * @param warn
  *   is told what an operator of the query should know
  * @param placing
  *   the monitor under which the runs of an application place workers, one after the other: each
  *   sees what the others have placed
  */
final class QueryRun(
    val run: String,
    val checkpointRoot: String,
    planLog: PlanLog,
    faults: FaultPoints,
    warn: String => Unit,
    placing: Object = new Object
) {
  private val places = new WorkerPlaces(text => warn(s"Query $run: $text"))
  private val told = new WorkerLoads
  private val scenes = new Scenes(() => records.current, told)
  @volatile private var settings = QueryRun.Settings()
  private var read = Option.empty[History]
  private val records = new RunRecords(run, planLog, faults, warn)
  private val roster = new DutyRoster(() => records.state, places, told)
  @volatile private var pace = new CopyPace(TransferRate.Settings())
  @volatile private var isStarted = false
  @volatile private var exporting = Set.empty[String] // executors that lend what steps took
  private var tooFew = Option.empty[Int] // executors, of which `warn` was told last

  import places.observed

  /** What the run has on executors. */
  val footprint = new RunFootprint(() => snapshot, places, told)

  /** The protocol's state, for those who show it; None before the first batch. */
  def snapshot: Option[Protocol.State] = if (isStarted) records.state else None

  /** The query's groups, as the plan log knows them; empty before the first batch. */
  def groups: Vector[Group] = records.state.fold(Vector.empty[Group])(_.groups)

  /** Reads the plan log: the first look of a start, which `start` does itself if nobody else has.
    * The simulation lets other drivers write between the two looks.
    */
  def readPlanLog(): Unit = read = Some(planLog.read())

  /** Begins the run, before its first batch is planned: reads the plan log, unless `readPlanLog`
    * has, and looks at the commit log after that. What another run does after both looks, the start
    * record's number shows.
    *
    * @param latestCommitted
    *   looks at the commit log: returns the newest batch in it
    * @param bins
    *   as configured, for new queries
    * @param makeFolders
    *   makes the folders that Spark's readers go by
    * @param recovery
    *   reads the state files of a store
    * @throws io.megaphone.errors.UnsupportedQueryException
    *   if the checkpoint does not fit the query; StepNotSealedException if another run is at work
    *   or the start record cannot be written
    */
  def start(
      first: QueryRun.FirstBatch,
      latestCommitted: () => Option[Long],
      bins: Int,
      settings: QueryRun.Settings,
      makeFolders: Vector[Group] => Unit,
      recovery: StoreId => Recovery
  ): Unit = {
    val history = read.getOrElse(planLog.read())
    read = None
    if (latestCommitted().exists(_ >= first.number))
      throw new StepNotSealedException(
        s"Batch ${first.number} of the query is committed already: another run of the query is " +
          "at work, and this one must not go on."
      )
    this.settings = settings
    pace = new CopyPace(settings.transferRate)
    places.configure(settings.placement)
    val known = RunStart.groups(history, first, checkpointRoot)
    val kept = history.first.fold(bins)(_.bins)
    if (kept != bins)
      warn(
        s"The checkpoint of query $run has $kept bins and keeps them; the configured number of " +
          s"bins, $bins, is for new queries."
      )
    records.begin(Protocol.start(run, known, settings.protocol))
    try {
      makeFolders(known)
      val isRestored = RunStart.isRestored(history, first, known, recovery)
      records.confirm(
        Protocol.RunStarting(first.number, first.checkpointFormat, kept, history, isRestored)
      )
      isStarted = true
    } catch { case e: Throwable => records.giveUp(); throw e }
  }

  /** Plans a batch; the same when asked again for the same batch.
    *
    * @param asked
    *   the groups of the batch's plan
    * @param isOwn
    *   whether this run wrote the batch's offset log
    * @param ids
    *   of each store's workers at the version that the batch reads
    * @throws io.megaphone.errors.StepNotSealedException
    *   if a step could not be sealed: the batch must fail
    */
  def plan(
      batch: Long,
      asked: Vector[Group],
      isOwn: Boolean,
      ids: Map[StoreId, VersionIds],
      cluster: => ClusterView
  ): BatchPlan = {
    val known = current.groups // with families in the plan log's places
    val groups =
      asked.map(g => known.find(_.id == g.id).getOrElse(throw RunStart.changed(known, asked)))
    records.readUnconfirmed()
    takeWholes()
    val obsoleteRecords = trim(batch)
    val isNew = !current.decision.exists(_.batch.number == batch)
    place(groups, cluster, batch, mayTake = isNew)
    tellTooFew()
    val planned = Protocol
      .Batch(
        batch,
        isOwn,
        ids,
        places.wishes.all,
        stateBytes(groups),
        stoodBy(groups, batch),
        pace.imageBytesMax
      )
    val commands = records.feed(Protocol.BatchPlanning(planned))
    val decision = commands.collectFirst {
      case Protocol.HandOut(d) => d
      case Protocol.Fail(reason) => throw new StepNotSealedException(reason)
    }.get
    pace.planned(decision, Duties.liveSteps(current), hasStandbysToMake)
    val pins = groups.flatMap(g => places.wishes.takePins(g, decision.after(g.id).workers))
    if (current.history.sealAt(batch - 1).isDefined) faults.at(FaultPoints.DriverSettled)
    val tables = groups.map(g => g.id -> Tables(decision.before(g.id), decision.after(g.id))).toMap
    val assignments = groups.map { g =>
      g.id -> Assignment.of(run, decision, g, tables(g.id), w => observed.addressOf(Seat(g.id, w)))
    }.toMap
    BatchPlan(decision, tables, assignments, pins, sweepOf(decision), obsoleteRecords)
  }

  /** Says once, until it changes, that there are too few executors for the wished standbys. */
  private def tellTooFew(): Unit = {
    val replicas = settings.placement.replicas
    val open = observed.cluster.open.size
    val now = Option.when(replicas > 0 && open <= replicas)(open)
    if (now != tooFew) now.foreach { executors =>
      warn(
        s"spark.megaphone.replicas asks for $replicas standbys of each worker of query $run, " +
          "on executors of their own. The number of executors that may take state is " +
          s"$executors. So workers have fewer standbys, and a loss may read the checkpoint. Give " +
          s"the query at least ${replicas + 1} executors, or ask for fewer standbys."
      )
    }
    tooFew = now
  }

  private def stoodBy(groups: Vector[Group], batch: Long): Map[Long, Vector[Set[String]]] =
    if (!places.hasStandbys) Map.empty
    else {
      val brought = scenes.broughtBins(batch - QueryRun.StoodByBehind to batch)
      places.beside.having(
        groups,
        // A standby of the version that a step led to has the bins that it brought.
        seat => brought.get(seat).fold(batch - QueryRun.StoodByBehind)(_ + 1)
      )
    }

  /** Executors have come or gone while a batch runs, or are to be emptied. Returns pins for the
    * workers whose executor is gone, so that the batch's tasks that run again go where a standby
    * is.
    */
  def clusterChanged(cluster: => ClusterView): Vector[Pin] =
    if (!isStarted) Vector.empty
    else {
      val groups = current.groups
      place(groups, cluster, batchNow, mayTake = false)
      groups.flatMap(g => places.wishes.takePins(g, currentTable(g.id).workers))
    }

  /** Takes a newer view of the executors, between batches. */
  def see(cluster: => ClusterView): Unit =
    if (isStarted) place(current.groups, cluster, batchNow, mayTake = false)

  /** Begins relocations that even the load of executors out. Returns them: none if it is even.
    *
    * @param tolerance
    *   how far from its part the load of an executor may stay, as a fraction of the part
    */
  def spread(tolerance: Double): Vector[Relocation] =
    places.spread(sceneNow, tolerance)

  /** Whether executors had no room for workers, not long ago. They get none to even the load. */
  def hasRefusals: Boolean = observed.reported.hasRefusals

  /** Whether the loads of all workers are known: each has committed in this run. */
  def knowsLoads: Boolean = sceneNow.isKnown

  /** Begins relocations of workers to the executors that are named. Returns them, without those
    * that are there, or are on their way there. A worker that is to stay where it is turns round.
    */
  def relocate(to: Map[Seat, String]): Vector[Relocation] =
    places.relocate(sceneNow, to)

  /** Ends relocations that no batch has taken: their workers stay. */
  def cancelRelocations(ids: Set[Long]): Unit =
    places.cancel(sceneNow, ids)

  /** What has happened to its workers since this was asked last. */
  def takeNews(): PlacingNews = places.takeNews()

  private def sceneNow: Scene = scenes.at(batchNow, current.groups)

  /** The executors that lend what steps on demand have left there. */
  def lenders: Set[String] = exporting

  /** The batch that was planned last; -1 before the first. */
  private def batchNow: Long = records.state.flatMap(_.decision).fold(-1L)(_.batch.number)

  private def place(
      groups: Vector[Group],
      cluster: => ClusterView,
      batch: Long,
      mayTake: Boolean
  ): Unit = placing.synchronized {
    places.see(cluster, batch).foreach { lost =>
      exporting -= lost
      records.feed(Protocol.ExecutorLost(lost))
    }
    places.place(scenes.at(batch, groups, mayTake))
    noteHurry()
  }

  /** An executor that is to be emptied and has what steps on demand have left there is emptied as
    * fast as can be: if it ends before, batches wait for files. Its workers may go on meanwhile, so
    * relocations keep to the rate.
    */
  private def noteHurry(): Unit = pace.hurries(
    exporting.exists(!observed.cluster.open(_)) &&
      records.state.exists(Duties.takenAt(_, observed.isLost).nonEmpty)
  )

  /** Accepts a plan, which is in the plan log when this returns. Throws StepNotSealedException if
    * it could not be written; it is then not known whether the plan is there.
    */
  def submit(make: Protocol.State => Plan): Plan = {
    records.readUnconfirmed()
    val plan = make(current)
    records.confirm(Protocol.PlanSubmitted(plan))
    plan
  }

  /** Cancels a plan: steps not sealed yet will not be. Nothing happens if it has ended. */
  def cancel(planId: String): Unit = {
    records.readUnconfirmed()
    if (current.history.plan(planId).isEmpty) throw PlanRefusedException.unknownPlan(planId)
    if (current.history.open.exists(_.id == planId))
      records.confirm(Protocol.PlanCancelled(planId))
  }

  /** An executor reports how far its replicas are. A report of an executor that is gone, which came
    * late, is ignored.
    */
  def reported(report: Report): Unit = if (
    records.state.isDefined && observed.cluster.get(report.executor.id).isDefined
  ) {
    def tell(key: ReplicaKey, replica: ReplicaState): Unit = key.purpose match {
      case ForStep(step, _) if key.store.run == run =>
        records.feed(Protocol.ReplicaReported(key, step, replica)); ()
      case _ => ()
    }
    val executor = report.executor.id
    // One that had the duty before may still report what it has.
    val due = dutiesOf(executor).iterator.map(_.key).toSet
    for ((k, version) <- report.ready if due(k)) tell(k, ReplicaState.Ready(version, executor))
    for ((k, reason) <- report.refused if due(k)) tell(k, ReplicaState.Refused(reason, executor))
    // So may one that the source has left.
    for (k <- report.surveyed)
      if (observed.executorOf(k.store.id.operator, k.source).forall(_ == executor))
        tell(k, ReplicaState.Surveyed(executor))
    val noRoom = for {
      worker <- report.noRoom.toSet if worker.store.run == run
      group <- groups.find(_.stores.contains(worker.store.id))
    } yield Seat(group.id, worker.worker)
    report.whole.filter(_._1.store.run == run).foreach(wholes.add)
    takeWholes()
    val waiting = report.restsHeldUp.collect {
      case (WorkerId(store, worker), why) if store.run == run => (store.id, worker) -> why
    }.toMap
    if (records.state.flatMap(_.restsHeldUp.get(executor)).getOrElse(Map.empty) != waiting)
      records.feed(Protocol.RestsHeldUp(executor, waiting))
    val failing = report.failing.filter { case (key, _) => due(key) }.toMap
    if (records.state.flatMap(_.failing.get(executor)).getOrElse(Map.empty) != failing)
      records.feed(Protocol.PreparationsFailing(executor, failing))
    val standing = report.standing.filter(_.worker.store.run == run)
    places.standsBy(executor, standing, noRoom, batchNow)
    val copied = report.copied.filter(_.replica.store.run == run)
    if (pace.reported(executor, copied, report.replicas.filter(r => due(r.replica))))
      records.feed(Protocol.CopiesProgressed)
    pace.besideTasks(executor, report.besideTasks.getOrElse(run, 0L))
    exporting = if (report.exports.contains(run)) exporting + executor else exporting - executor
    noteHurry()
  }

  /** A batch has ended, and took so long from its trigger on. The rate of copies follows from it. A
    * batch that this is not told of is not counted.
    */
  def batchEnded(batch: Long, durationMs: Long): Unit = {
    pace.batchEnded(batch, durationMs)
    if (isStarted && places.beside.relocating.nonEmpty)
      places.batchEnded(sceneNow)
  }

  /** A task reports its commit. */
  def committed(c: Committed): Unit = {
    observed.runs.ran(c.worker.store.id.operator, c.worker.worker, c.executor.id, c.batch)
    told.committed(c)
    if (c.binsIncomplete == 0) wholes.add(c.worker -> (c.batch + 1))
  }

  /** Takes note of the workers whose bins are all complete, each at a version. */
  private def takeWholes(): Unit =
    Iterator.continually(wholes.poll()).takeWhile(_ != null).foreach { case (worker, version) =>
      if (records.state.exists(_.decision.exists(_.hasIncomplete)))
        records.feed(Protocol.WorkerWhole(worker.store.id, worker.worker, version))
    }

  /** What executors are to know of this run; None before its first batch. */
  def live: Option[LiveRun] = for {
    state <- records.state
    decision <- state.decision
    takenAt = Duties.takenAt(state, observed.isLost)
  } yield LiveRun(
    checkpointRoot,
    decision.batch.number,
    Duties.liveSteps(state, takenAt),
    settings.pullDeadlineMs,
    pace.copyRate,
    takenAt,
    decision.sealedSteps.iterator.map(_.id).toSet
  )

  /** This run's part of the orders for an executor; None before its first batch.
    *
    * The batch may be planned meanwhile. What is live is looked at last: so a step that is sealed
    * then is in its replicas' duties, or in what is live. If it were in neither, its replicas would
    * be dropped.
    */
  def ordersFor(executor: String): Option[RunOrders] = {
    val (duties, standbys) = (dutiesOf(executor), standbyDutiesOf(executor))
    val pushes = roster.pushesOf(executor)
    live.map(RunOrders(run, _, duties, standbys, pushes))
  }

  /** What an executor is to have ready. */
  def dutiesOf(executor: String): Vector[ReplicaDuty] = roster.replicasOf(executor)

  /** What an executor is to stand by for. */
  def standbyDutiesOf(executor: String): Vector[StandbyDuty] = roster.standbysOf(executor)

  private def hasStandbysToMake: Boolean = places.hasStandbys && current.groups.exists { group =>
    (0 until scenes.workersMax(group)).exists { worker =>
      places.beside.of(Seat(group.id, worker)).exists(!observed.reported.isWhole(group, worker, _))
    }
  }

  /** The table that the newest batch of a group has. */
  def currentTable(group: Long): RoutingTable = current.currentTable(group)

  /** The bytes of each worker's state, by group; nothing while no plan asks for them. */
  private def stateBytes(groups: Vector[Group]): Map[(Long, Int), Long] =
    if (current.history.open.isEmpty) Map.empty
    else
      (for {
        group <- groups
        worker <- 0 until scenes.workersMax(group)
        bytes <- told.bytesOf(group, worker)
      } yield (group.id, worker) -> bytes).toMap

  // What commits told: they come on any thread, and the records are changed by one at a time.
  private val wholes = new ConcurrentLinkedQueue[(WorkerId, Long)]()

  private def current: Protocol.State = records.current

  /** A sweep every so many batches: what the oldest retained version needs is in the commit log and
    * in the plan log, also of runs before this one.
    */
  private def sweepOf(d: Protocol.Decision): Option[SweepOrder] = {
    val newest = Settled(d.batch.number, d.before, d.batch.ids)
    // Of the oldest batch that the commit log still has.
    val version = newest.version - settings.batchesToRetain + 1
    Option.when(newest.version % settings.sweepBatches == 0 && version > 1)(
      SweepOrder(version, newest, current.groups, current.history)
    )
  }

  /** Appends the record that stands for all before it, once there are many. Returns the number that
    * the others are before, which may be deleted. If it cannot be confirmed the batch goes on.
    */
  private def trim(batch: Long): Option[Long] =
    if (current.history.untrimmed < settings.trimRecords) None
    else {
      val oldest = batch - settings.batchesToRetain - settings.protocol.gapBatches - 1
      records.confirm(Protocol.Trimming(oldest))
      Option.when(current.history.untrimmed == 0)(current.history.nextNumber - 1)
    }
}

object QueryRun {

  /** How many versions a standby may be behind for steps to count on it. */
  private val StoodByBehind = 5L

  /** What a run finds when it is about to plan its first batch.
    *
    * @param groups
    *   those of the batch's plan
    * @param ids
    *   of each store's workers at the version that the batch reads
    * @param checkpointFormat
    *   1 or 2
    */
  final case class FirstBatch(
      number: Long,
      groups: Vector[Group],
      ids: Map[StoreId, VersionIds],
      checkpointFormat: Int
  )

  /** @param sweepBatches
    *   batches between two sweeps
    * @param batchesToRetain
    *   Spark's `minBatchesToRetain`
    * @param trimRecords
    *   records of the plan log from which on it is trimmed
    * @param pullDeadlineMs
    *   how long executors wait for a block that prepares a replica; None for their own deadline
    * @param transferRate
    *   what copies may cost
    * @param placement
    *   where workers and standbys are placed
    */
  final case class Settings(
      protocol: Protocol.Settings = Protocol.Settings(),
      sweepBatches: Long = 50,
      batchesToRetain: Int = 100,
      trimRecords: Int = 100,
      pullDeadlineMs: Option[Long] = None,
      transferRate: TransferRate.Settings = TransferRate.Settings(),
      placement: PlacementSettings = PlacementSettings()
  )
}
