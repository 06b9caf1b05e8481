// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentLinkedQueue

import scala.collection.immutable.ArraySeq

import io.megaphone.checkpoint.{Recovery, Settled}
import io.megaphone.checkpoint.planlog.{History, PlanLog}
import io.megaphone.errors.{PlanRefusedException, StepNotSealedException, UnsupportedQueryException}
import io.megaphone.format.{StoreId, VersionIds, WorkerId}
import io.megaphone.pace.TransferRate
import io.megaphone.placement.{Load, Seat}
import io.megaphone.plan.{Group, Plan, RoutingTable}
import io.megaphone.protocol.{Duties, Protocol, ReplicaState, Route}
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
  @volatile private var settings = QueryRun.Settings()
  private var read = Option.empty[History]
  private val records = new RunRecords(run, planLog, faults, warn)
  private val roster = new DutyRoster(() => records.state, places, told)
  @volatile private var pace = new CopyPace(TransferRate.Settings())
  @volatile private var isStarted = false
  private var exporting = Set.empty[String] // executors that others ask for the rest of bins
  private var tooFew = Option.empty[Int] // executors, of which `warn` was told last

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
    import first.{checkpointFormat, groups => asked, number => firstBatch}
    val history = read.getOrElse(planLog.read())
    read = None
    if (latestCommitted().exists(_ >= firstBatch))
      throw new StepNotSealedException(
        s"Batch $firstBatch of the query is committed already: another run of the query is at " +
          "work, and this one must not go on."
      )
    if (history.isEmpty && firstBatch > 0)
      throw UnsupportedQueryException.missingPlanLog(checkpointRoot)
    this.settings = settings
    pace = new CopyPace(settings.transferRate)
    places.configure(settings.placement)
    val known = history.first.fold(asked) { began =>
      if (!QueryRun.areSame(began.groups, asked))
        throw changed(began.groups, asked)
      if (history.last.exists(_.checkpointFormat == 2) && checkpointFormat == 1)
        throw UnsupportedQueryException.formatDowngrade
      if (began.bins != bins)
        warn(
          s"The checkpoint of query $run has ${began.bins} bins and keeps them; the configured " +
            s"number of bins, $bins, is for new queries."
        )
      history.last.get.groups.zip(asked).map { case (before, now) => before.withFamiliesOf(now) }
    }
    records.begin(Protocol.start(run, known, settings.protocol))
    try {
      makeFolders(known)
      val kept = history.first.fold(bins)(_.bins)
      val restored = isRestored(history, firstBatch, first.ids, recovery)
      records.confirm(Protocol.RunStarting(firstBatch, checkpointFormat, kept, history, restored))
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
    val groups = asked.map(g => known.find(_.id == g.id).getOrElse(throw changed(known, asked)))
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
        places.wanted,
        stateBytes(groups),
        stoodBy(groups, batch)
      )
    val commands = records.feed(Protocol.BatchPlanning(planned))
    val decision = commands.collectFirst {
      case Protocol.HandOut(d) => d
      case Protocol.Fail(reason) => throw new StepNotSealedException(reason)
    }.get
    pace.planned(decision, Duties.liveSteps(current), hasStandbysToMake)
    val pins = groups.flatMap(g => places.pinsOf(g, decision.after(g.id).workers))
    if (current.history.sealAt(batch - 1).isDefined) faults.at(FaultPoints.DriverSettled)
    val tables = groups.map(g => g.id -> Tables(decision.before(g.id), decision.after(g.id))).toMap
    val assignments = groups.map(g => g.id -> assignmentOf(decision, g, tables(g.id))).toMap
    BatchPlan(decision, tables, assignments, pins, sweepOf(decision), obsoleteRecords)
  }

  /** Says once, until it changes, that there are too few executors for the wished standbys. */
  private def tellTooFew(): Unit = {
    val replicas = settings.placement.replicas
    val open = places.cluster.open.size
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
      val brought = broughtBins(batch - QueryRun.StoodByBehind to batch)
      places.stoodBy(
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
      groups.flatMap(g => places.pinsOf(g, currentTable(g.id).workers))
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
    places.spread(scene(current.groups, batchNow), tolerance)

  /** Whether executors had no room for workers, not long ago. They get none to even the load. */
  def hasRefusals: Boolean = places.hasRefusals

  /** Whether the loads of all workers are known: each has committed in this run. */
  def knowsLoads: Boolean = scene(current.groups, batchNow).isKnown

  /** Begins relocations of workers to the executors that are named. Returns them, without those
    * that are there, or are on their way there. A worker that is to stay where it is turns round.
    */
  def relocate(to: Map[Seat, String]): Vector[Relocation] =
    places.relocate(scene(current.groups, batchNow), to)

  /** Ends relocations that no batch has taken: their workers stay. */
  def cancelRelocations(ids: Set[Long]): Unit =
    places.cancel(scene(current.groups, batchNow), ids)

  /** What has happened to its workers since this was asked last. */
  def takeNews(): PlacingNews = places.takeNews()

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
    places.place(scene(groups, batch, mayTake))
    noteHurry()
  }

  /** An executor that is to be emptied and has what steps on demand have left there is emptied as
    * fast as can be: if it ends before, batches wait for files. Its workers may go on meanwhile, so
    * relocations keep to the rate.
    */
  private def noteHurry(): Unit = pace.hurries(
    exporting.exists(!places.cluster.open(_)) &&
      records.state.exists(Duties.takenAt(_, isLost).nonEmpty)
  )

  /** The workers that steps have just brought bins, with the newest batch that did: a standby of
    * the version that this batch read lacks them.
    */
  private def broughtBins(batches: Iterable[Long]): Map[Seat, Long] = (for {
    batch <- batches.toVector.sorted
    seal <- current.history.sealAt(batch).toVector
    (group, worker) <- seal.gaining
  } yield Seat(group, worker) -> batch).toMap

  /** The executors where a worker's state is relied on: where a batch that is under way has it run,
    * and to which steps bring bins of it, those that are announced and those that the batch takes.
    */
  private def reliedOn(batch: Long): Seat => Set[String] = {
    lazy val underWay = current.decision.filter(_.batch.number == batch)
    lazy val takers = (for {
      decision <- current.decision.toVector
      (steps, tables) <- Seq(
        decision.announced -> decision.after,
        underWay.toVector.flatMap(_.sealedSteps) -> decision.before
      )
      step <- steps
      route <- Route.between(step.step, tables(step.id.group))
      executor <- decision.batch.executorsOf(step.id.group).lift(route.target)
    } yield Seat(step.id.group, route.source) -> executor).groupMap(_._1)(_._2)
    seat =>
      takers.getOrElse(seat, Vector.empty).toSet ++
        underWay.flatMap(_.batch.executorsOf(seat.group).lift(seat.worker))
  }

  private def scene(groups: Vector[Group], batch: Long, mayTake: Boolean = false) = {
    lazy val announced = for {
      step <- current.announced
      table = currentTable(step.id.group)
      move <- step.step.moves
      worker <- Seq(table.workerOf(move.bin), move.target)
    } yield Seat(step.id.group, worker)
    lazy val busy = announced.toSet ++ broughtBins(batch - 2 to batch).keySet
    lazy val incomplete = (for {
      decision <- current.decision.iterator
      (group, bins) <- decision.incomplete
      bin <- bins
    } yield Seat(group, decision.after(group).workerOf(bin))).toSet
    lazy val areWarm = groups.forall { group =>
      (0 until currentTable(group.id).workers).forall(told.isWarm(group, _))
    }
    WorkerPlaces.Scene(
      batch,
      groups.map(g => g -> workersMax(g)),
      seat => {
        val load = footprint.loadOf(current.group(seat.group), seat.worker)
        if (areWarm) load else load.copy(busyMs = Load.NotKnown)
      },
      seat => busy(seat),
      seat => incomplete(seat),
      reliedOn(batch),
      mayTake,
      () =>
        groups.forall { g =>
          (0 until currentTable(g.id).workers).forall(told.of(g, _).isDefined)
        }
    )
  }

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
    records.state.isDefined && places.cluster.get(report.executor.id).isDefined
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
      if (places.executorOf(k.store.id.operator, k.source).forall(_ == executor))
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
    if (pace.reported(report.copied.filter(_.replica.store.run == run)))
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
    if (isStarted && places.relocating.nonEmpty)
      places.batchEnded(scene(current.groups, batchNow))
  }

  /** A task reports its commit. */
  def committed(c: Committed): Unit = {
    places.ran(c.worker.store.id.operator, c.worker.worker, c.executor.id, c.batch)
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
    takenAt = Duties.takenAt(state, isLost)
  } yield LiveRun(
    checkpointRoot,
    decision.batch.number,
    Duties.liveSteps(state, takenAt),
    settings.pullDeadlineMs,
    pace.copyRate,
    takenAt,
    decision.sealedSteps.iterator.map(_.id).toSet
  )

  /** Whether a worker has run last on an executor that is gone. */
  private def isLost(group: Long, worker: Int): Boolean =
    places.executorOf(group, worker).exists(places.cluster.get(_).isEmpty)

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
    (0 until workersMax(group)).exists { worker =>
      places.besides(Seat(group.id, worker)).exists(!places.isWhole(group, worker, _))
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
        worker <- 0 until workersMax(group)
        bytes <- told.bytesOf(group, worker)
      } yield (group.id, worker) -> bytes).toMap

  private def changed(before: Vector[Group], now: Vector[Group]) =
    UnsupportedQueryException.changedOperators(QueryRun.describe(before), QueryRun.describe(now))

  // What commits told: they come on any thread, and the records are changed by one at a time.
  private val wholes = new ConcurrentLinkedQueue[(WorkerId, Long)]()

  private def current: Protocol.State = records.current

  /** The most workers that a group has, or that an open plan will give it. Those that the batch
    * under way does away with are among them: others may take their bins from their standbys.
    */
  private def workersMax(group: Group): Int = {
    val planned = current.history.open.iterator.flatMap(_.workersMax.get(group.id))
    val before = current.decision.flatMap(_.before.get(group.id)).map(_.workers)
    (planned ++ before ++ Iterator(currentTable(group.id).workers)).max
  }

  private def assignmentOf(d: Protocol.Decision, group: Group, tables: Tables): Assignment = {
    val incoming = d.sealedSteps
      .filter(_.id.group == group.id)
      .map { a =>
        // A standby may turn out to be of no use: the target then asks the source.
        def where = d.batch.whereabouts(group.id).copy(stoodBy = Vector.empty)
        def routes = Route.of(a.step, tables.before, where)
        Incoming(
          a.id,
          a.step.moves.iterator.map(_.bin).to(ArraySeq),
          Option.when(a.mode.isOnDemand)(routes)
        )
      }
    val sources = incoming.flatMap(_.bins.map(tables.before.workerOf)).distinct
    val addresses = sources.flatMap(s => places.addressOf(group.id, s).map(s -> _)).toMap
    val outgoing = d.announced.filter(_.id.group == group.id).map { a =>
      val routes = Route.of(a.step, tables.after, d.batch.whereabouts(group.id))
      Outgoing(a.id, a.mode, a.since == d.batch.number, routes)
    }
    val stores = group.stores.toSet
    val ids = d.batch.ids.filter { case (store, _) => stores(store) }
    val label = tables.after.toString
    Assignment(
      run,
      group.id,
      group.operators,
      d.batch.number,
      ids,
      incoming,
      addresses,
      outgoing,
      label,
      d.incomplete.getOrElse(group.id, Set.empty)
    )
  }

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

  /** Whether the state that a batch reads was written under the seal that the run before took back:
    * an older run may have committed its batch after all. Asked for only after that has happened.
    */
  private def isRestored(
      history: History,
      batch: Long,
      ids: Map[StoreId, VersionIds],
      recovery: StoreId => Recovery
  ): Boolean = {
    val contested = current.groups.iterator
      .flatMap(group => history.contestedAt(group.id, batch - 1).map(group.stores.head -> _))
    contested.nextOption().exists { case (store, table) =>
      val of = ids.getOrElse(store, VersionIds.Fixed)
      Settled.isWrittenUnder(table, store, of, batch, recovery(store))
    }
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

  private def areSame(one: Vector[Group], other: Vector[Group]): Boolean =
    one.map(_.operators.size) == other.map(_.operators.size) &&
      one
        .flatMap(_.operators)
        .zip(other.flatMap(_.operators))
        .forall { case (a, b) => a.isSame(b) }

  private def describe(groups: Vector[Group]): String = groups
    .map(_.operators.map(o => s"${o.id} ${o.name}").mkString("(", ", ", ")"))
    .mkString(" ")
}
