// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable
import scala.util.{Failure, Success}
import scala.util.control.ControlThrowable

import io.megaphone.checkpoint.planlog.{History, PlanLog, Verdict}
import io.megaphone.errors.StepNotSealedException
import io.megaphone.format.VersionIds
import io.megaphone.pace.TransferRate
import io.megaphone.placement.Seat
import io.megaphone.plan.Plan
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.{
  BatchPlan, ClusterView, FaultPoints, Pin, QueryRun, Relocation, SweepOrder
}

/** One run of the query: the shipped [[io.megaphone.runtime.QueryRun]], and a host made of dice
  * that does, write by write, what Spark's driver does:
  *
  *   1. The query starts: the offset log as it is now may not be the offset log that Spark reads.
  *   1. Spark reads the offset and commit logs, and by that decides which batch is next, and
  *      whether it is a replay.
  *   1. Offset log N is written, unless the batch is a replay: only then is the batch this run's
  *      own.
  *   1. In the first batch: the plan log is read, then the commit log is looked at, then the run
  *      starts. Other drivers may write in between.
  *   1. The batch is planned; steps that are due are sealed.
  *   1. The tasks of each group run; a failed one is sent again. `foreachBatch` may run them twice.
  *   1. The first accepted id of each worker goes to commit log N. If another driver was faster,
  *      this one dies.
  *
  * It may die or be paused between any two steps, and before or after any write.
  */
final class Driver(val id: String, world: World) {
  import Driver._

  private val setup = world.setup
  private val checkpoint = world.checkpoint
  private val planLog = new PlanLog(new DriverPlanLog(id, world)) {
    override def read(): History = world.planted.history(checkpoint.planLog)
  }
  private val run =
    new QueryRun(id, "root", planLog, FaultPoints.Off, text => world.trace(s"$id WARN $text"))

  /** How far the run is. */
  val status = new RunStatus(this, run, world)

  /** The tasks of its batches. */
  val tasks = new BatchTasks(this, world)
  private var phase: Phase = Starting
  private var newestOffsetAtStart = -1L
  private var batch = -1L
  private var isOwn = false
  private var latestCommitted = Option.empty[Long]
  private var isStarted = false
  private var planned = Option.empty[BatchPlan]
  private var relocated = 0
  private val placements = mutable.HashMap.empty[Long, Map[Long, Vector[String]]]
  private var isDoomed = false
  private var idleTurns = 0 // in which it plans no batch
  var isDead = false
  var isPaused = false

  /** The runtime that executors and users talk to; None before it has started. */
  def live: Option[QueryRun] = Option.when(isStarted && !isDead)(run)
  def state: Protocol.State = run.snapshot.get

  /** First batch of this run, when memory is cold. */
  def isFirst(b: Long): Boolean = state.firstBatch.contains(b)
  def isReady: Boolean = isStarted && !isDead && !isPaused

  /** Whether no other driver has committed the batch that this one is at, and it knows its own plan
    * log.
    */
  def isCurrent: Boolean = batch >= world.oracle.settled && (state.unconfirmed.isEmpty ||
    state.history.nextNumber == checkpoint.planLog.nextNumber)
  def openPlans: Vector[String] = if (isStarted) state.history.open.map(_.id) else Vector.empty

  /** Where each worker of a group was wanted in a batch. */
  def placementAt(batch: Long, group: Long): Option[Vector[String]] =
    placements.get(batch).flatMap(_.get(group))

  /** Whether the batch that was planned last has a worker on an executor. */
  def isPlacedOn(executor: String, group: Long, worker: Int): Boolean =
    state.decision.exists { d =>
      placementAt(d.batch.number, group).flatMap(_.lift(worker)).contains(executor)
    }

  /** Whether it plans no batches, as there are no rows. */
  def isIdle: Boolean = isReady && idleTurns > 0

  def step(): Unit =
    if (idleTurns > 0) idleTurns -= 1
    else if (world.isTooLate(batch) && phase != Starting) die("another driver is far ahead")
    else
      try world.during(this)(next())
      catch { case died: DriverDied => die(died.getMessage) }

  private def next(): Unit = phase match {
    case Starting =>
      newestOffsetAtStart = checkpoint.offsets.lastOption.fold(-1L)(_._1)
      phase = ReadingOffsets
    case ReadingOffsets =>
      batch = checkpoint.latestCommitted.fold(0L)(_ + 1)
      val isReplay = checkpoint.offsets.contains(batch)
      isOwn = world.planted.isOwnReplay(newestOffsetAtStart, batch)
      phase = if (isReplay) ReadingPlanLog else WritingOffset
    case WritingOffset =>
      writing(s"offset log $batch") {
        if (checkpoint.offsets.contains(batch)) die(s"offset log $batch is there")
        else {
          checkpoint.offsets(batch) = world.dice.long()
          checkpoint.purge(batch)
          isOwn = true
          phase = if (isStarted) Planning else ReadingPlanLog
        }
      }
    case ReadingPlanLog =>
      latestCommitted = checkpoint.latestCommitted // of use to a planted bug only
      if (!world.planted.is(Bug.LogReadLate)) run.readPlanLog()
      phase = CheckingCommits
    case CheckingCommits =>
      if (!world.planted.is(Bug.LogReadLate)) latestCommitted = checkpoint.latestCommitted
      phase = StartingRun
    case StartingRun =>
      val settings = QueryRun.Settings(
        setup.settings,
        setup.sweepEvery.toLong,
        setup.retained,
        setup.trimRecords,
        transferRate = TransferRate.Settings(0.1, setup.copiedPerSecond),
        placement = setup.placement
      )
      val format = if (setup.isV2) 2 else 1
      val first = QueryRun.FirstBatch(batch, setup.groups, idsAtBatch, format)
      orDie(
        run.start(
          first,
          () => latestCommitted,
          setup.bins,
          settings,
          _ => (),
          world.planted.recoveryAtStart
        )
      )
      isStarted = !isDead
      if (isStarted) countVerdict()
      phase = Planning
    case Planning => planBatch()
    case Running => runTasks()
    case Committing => commit()
  }

  private def countVerdict(): Unit = state.history.last.get.verdict match {
    case Verdict.TakesBack(_) =>
      world.counts = world.counts.copy(takenBack = world.counts.takenBack + 1)
    case Verdict.Restores =>
      world.counts = world.counts.copy(restored = world.counts.restored + 1)
    case Verdict.None => ()
  }

  /** A batch that cannot be planned ends the query. */
  private def orDie(plan: => Unit): Unit =
    try plan
    catch { case e @ (_: StepNotSealedException | _: InjectedFault) => die(e.getMessage) }

  private def planBatch(): Unit = orDie {
    val ids = idsAtBatch
    val isAgain = run.snapshot.exists(_.decision.exists(_.batch.number == batch))
    val cluster = world.clusterView
    def plan(cluster: ClusterView) = run.plan(batch, setup.groups, isOwn, ids, cluster)
    val plan1 = plan(cluster)
    val decision = plan1.decision
    if (!isAgain) checkPlaces(decision.batch.placement, cluster)
    if (decision.batch.number != batch)
      throw new Violation(s"batch $batch got the tables of batch ${decision.batch.number}")
    // Of a damaged plan log the tasks must find out.
    if (!checkpoint.planLog.isDamaged) world.oracle.checkTables(batch, decision.before)
    if (
      world.dice.chance(0.1) && plan(world.clusterView).decision != decision
    ) // the rule may run twice for a batch
      throw new Violation(s"batch $batch was planned twice, and got other tables")
    if (!state.history.takenBack.exists(_.batch == batch)) world.handedOut(batch, decision.after)
    val isTaken = decision.sealedSteps.nonEmpty
    if (setup.isV2 && isTaken && world.faults.strikes(Fault.StepBreaks)) world.breakStep(batch)
    isDoomed = decision.after != decision.before && world.isBroken(batch)
    world.trace(
      s"$id plans batch $batch: ${decision.after.map(_._2).mkString(", ")}, sealed " +
        s"${decision.sealedSteps.map(_.id).mkString(" ")}, announced " +
        decision.announced.map(_.id).mkString(" ")
    )
    world.counts = world.counts.copy(steps = world.counts.steps + decision.sealedSteps.size)
    planned = Some(plan1)
    placements(batch) = decision.batch.placement
    countRelocated()
    plan1.pins.foreach(pin)
    plan1.sweep.foreach(order => world.later(this)(sweep(order)))
    plan1.obsoleteRecords.foreach(number => world.later(this)(deleteRecords(number)))
    world.planted.beforeBatch(decision)
    tasks.begin(plan1)
    phase = Running
  }

  /** Workers are wished on executors that get tasks, as the driver sees them. */
  private def checkPlaces(placement: Map[Long, Vector[String]], cluster: ClusterView): Unit =
    for ((group, places) <- placement; executor <- places.find(!cluster.runs(_)))
      throw new Violation(s"batch $batch places a worker of group $group on $executor, of $cluster")

  private def countRelocated(): Unit = {
    val done = run.footprint.relocations.count(_.end.contains(Relocation.Done))
    world.counts = world.counts.copy(relocated = world.counts.relocated + done - relocated)
    relocated = done
  }

  private def pin(pin: Pin): Unit = setup.groups
    .find(_.operators.exists(_.id == pin.operator))
    .foreach(g => tasks.located(g.id, pin.worker, pin.executor.id))

  /** The ids of a batch that others have committed and purged meanwhile do not matter any more. */
  private def idsAtBatch =
    checkpoint.idsAt(batch).getOrElse(throw new DriverDied("the commit log is ahead"))

  private def runTasks(): Unit =
    if (isDoomed && (tasks.haveAllBegun || world.dice.chance(0.05)))
      die(s"the step of batch $batch cannot be carried out")
    else if (tasks.areOver) phase = Committing
    else tasks.next()

  /** Executors have come or gone, or are to be emptied. */
  def clusterChanged(now: => ClusterView = world.clusterView): Unit =
    if (isReady) run.clusterChanged(now).foreach(pin)

  /** A user's calls. */
  def spread(): Unit = {
    run.see(world.clusterView)
    run.spread(tolerance = 0.1).foreach(r => world.trace(s"$id begins $r"))
  }
  def relocate(to: Map[Seat, String]): Unit =
    run.relocate(to).foreach(r => world.trace(s"$id begins $r"))
  def cancelRelocations(): Unit =
    run.cancelRelocations(run.footprint.relocations.filter(_.isOpen).map(_.id).toSet)

  /** An executor is gone: with its tasks, or so it seems. */
  def lost(executor: Executor, isCutOff: Boolean): Unit = {
    // A listener hears of a loss, or the next planning sees it.
    if (world.faults.isFree || world.dice.chance(0.7)) clusterChanged()
    tasks.lost(executor, isCutOff)
  }

  private def commit(): Unit = writing(s"commit log $batch") {
    if (checkpoint.commits.contains(batch)) die(s"commit log $batch is there")
    else if (checkpoint.latestCommitted.exists(_ > batch)) die(s"commit log $batch was there")
    else {
      val after = planned.get.decision.after
      checkpoint.commits(batch) = if (!setup.isV2) Map.empty else idsOfAccepted(after)
      if (batch != world.oracle.settled)
        throw new Violation(s"batch $batch is committed after version ${world.oracle.settled}")
      world.oracle.commit(tasks.accepted.valuesIterator.flatMap(_.written.iterator).toVector, after)
      world.counts = world.counts.copy(batches = world.counts.batches + 1)
      world.trace(s"$id commits batch $batch: ${checkpoint.commits(batch)}")
      if (world.dice.chance(0.9)) run.batchEnded(batch, world.dice.below(1000).toLong)
      batch += 1
      isOwn = false
      if (world.mayBeIdle && world.dice.chance(0.2)) idleTurns = world.dice.between(30, 300)
      phase = WritingOffset
    }
  }

  private def idsOfAccepted(after: Map[Long, io.megaphone.plan.RoutingTable]) = (for {
    g <- setup.groups
    s <- g.stores
  } yield {
    val ids = Vector.tabulate(after(g.id).workers)(w => tasks.accepted((g.id, w)).ids(s))
    s -> VersionIds(ids.padTo(g.firstWorkers, ids.head)) // Spark's readers count by these
  }).toMap

  /** The background thread of the sweep. */
  def sweep(order: SweepOrder): Unit = checkpoint.idsAt(order.version).foreach { ids =>
    val isAhead =
      order.newest.version < world.oracle.settled || order.version < world.oracle.oldest
    if (!world.planted.sweep(order, ids))
      order.sweep(ids, world.recovery, checkpoint.files) {
        case (_, Success(_)) => ()
        case (_, Failure(e)) if isAhead || world.isExpected(e) =>
          world.trace(s"$id does not sweep: $e")
        case (_, Failure(e)) => throw e
      }
  }

  /** A user's call: what it throws, the user sees, and the query goes on. */
  def submit(plan: Plan): Unit = told(run.submit(_ => plan))
  def cancel(planId: String): Unit = told(run.cancel(planId))

  private def told(call: => Any): Unit =
    try { call; () }
    catch {
      case e: StepNotSealedException => world.trace(s"$id: the user is told: ${e.getMessage}")
      case died: DriverDied => die(died.getMessage)
    }

  /** The background thread that deletes the plan log's old records. It may end at any of them. */
  private def deleteRecords(before: Long): Unit =
    try planLog.deleteBefore(before)
    catch { case e: InjectedFault => world.trace(s"$id stops deleting records: ${e.getMessage}") }

  private def writing(what: String)(write: => Unit): Unit = {
    world.driverMayDie(s"before $what")
    write
    if (!isDead) world.driverMayDie(s"after $what")
  }

  def die(reason: String): Unit = if (!isDead) {
    world.trace(s"$id dies: $reason")
    isDead = true
    tasks.end()
  }
}

/** A driver's process ends in the midst of something: no code of it sees that. */
final class DriverDied(reason: String) extends ControlThrowable(reason)

object Driver {
  sealed private trait Phase
  private case object Starting extends Phase
  private case object ReadingOffsets extends Phase
  private case object WritingOffset extends Phase
  private case object ReadingPlanLog extends Phase
  private case object CheckingCommits extends Phase
  private case object StartingRun extends Phase
  private case object Planning extends Phase
  private case object Running extends Phase
  private case object Committing extends Phase
}
