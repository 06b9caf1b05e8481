// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.checkpoint.planlog.History
import io.megaphone.checkpoint.planlog.LogRecord
import io.megaphone.plan.Plan
import io.megaphone.protocol.Protocol
import io.megaphone.transfer.Sources

/** One run of the query, write by write, as Spark's driver does them:
  *
  *   1. The query starts: what is in the offset log now may not be all that is in it when Spark
  *      reads it.
  *   1. Spark reads the offset and commit logs, and by that decides which batch is next, and
  *      whether it is a replay.
  *   1. Offset log N is written, unless the batch is a replay: only then is the batch this run's
  *      own.
  *   1. The plan log is read before the offset log, or after it, and then the commit log again. In
  *      either order, whatever a newer run has done since, this one's start record finds its number
  *      taken.
  *   1. In the first batch: the start record. Then the batch is planned; a step that is due is
  *      sealed.
  *   1. The tasks of each group run; a failed one is sent again. `foreachBatch` may run them twice.
  *   1. The first accepted id of each worker goes to commit log N. If another driver was faster,
  *      this one dies.
  *
  * It may die or be paused between any two steps, and before or after any write.
  */
final class Driver(val run: String, world: World) {
  import Driver._

  private val setup = world.setup
  private val checkpoint = world.checkpoint
  private var phase: Phase = Starting
  private var newestOffsetAtStart = -1L
  private val isLogFirst = !world.planted.is(Bug.LogReadLate) && world.dice.chance(0.5)
  private var batch = -1L
  private var isOwn = false
  private var history = History.Empty
  private var isStarted = false
  private var stages = Vector.empty[() => Stage]
  private var stage: Option[Stage] = None
  private val waiting =
    mutable.ArrayBuffer.empty[Int] // workers of the stage with no attempt running
  private val running = mutable.ArrayBuffer.empty[TaskAttempt]
  private val accepted =
    mutable.LinkedHashMap.empty[(Long, Int), TaskAttempt] // by group and worker: the first one
  private val lastRan = mutable.HashMap.empty[(Long, Int), String]
  private val attempts = mutable.HashMap.empty[Int, Int].withDefaultValue(0)
  private var isStageAgain = false
  var isDead = false
  var isPaused = false
  var state: Protocol.State = Protocol.start(run, setup.groups, setup.settings)

  /** First batch of this run, where memory is cold. */
  def isFirst(b: Long): Boolean = state.firstBatch.contains(b)
  def isReady: Boolean = isStarted && !isDead && !isPaused

  /** Whether no other driver has committed the batch that this one is at. */
  def isCurrent: Boolean = batch >= world.oracle.settled
  def stepsLeft: Int =
    state.history.open.map(p => p.stepsCount - state.history.sealedSteps(p.id).size).sum
  def openPlans: Vector[String] = if (isStarted) state.history.open.map(_.id) else Vector.empty

  def step(): Unit =
    if (world.isTooLate(batch) && phase != Starting && phase != ReadingLog)
      die("another driver is far ahead")
    else next()

  private def next(): Unit = phase match {
    case Starting =>
      newestOffsetAtStart = checkpoint.offsets.lastOption.fold(-1L)(_._1)
      phase = ReadingLog
    case ReadingLog =>
      if (isLogFirst) history = world.planted.history(checkpoint.planLog)
      phase = ReadingOffsets
    case ReadingOffsets =>
      val committed = checkpoint.commits.lastOption.fold(-1L)(_._1)
      batch = committed + 1
      isOwn = world.planted.isOwnReplay(newestOffsetAtStart, batch)
      phase = if (checkpoint.offsets.contains(batch)) ReadingLogLate else WritingOffset
    case WritingOffset =>
      writing(s"offset log $batch") {
        if (checkpoint.offsets.contains(batch)) die(s"offset log $batch is there")
        else {
          checkpoint.offsets(batch) = world.dice.long()
          isOwn = true
          phase = if (isStarted) Planning else ReadingLogLate
        }
      }
    case ReadingLogLate =>
      if (!isLogFirst) history = world.planted.history(checkpoint.planLog)
      phase = CheckingCommits
    case CheckingCommits =>
      if (!isLogFirst && !world.planted.is(Bug.LogReadLate) && checkpoint.commits.contains(batch))
        die(s"batch $batch is committed meanwhile")
      phase = Planning
    case Planning => if (isStarted) planBatch() else start()
    case Running => runStage()
    case Committing => commit()
  }

  private def start(): Unit = {
    perform(Protocol.RunStarting(batch, if (setup.isV2) 2 else 1, setup.bins, history))
    isStarted = !isDead
  }

  private def planBatch(): Unit = {
    val ids = checkpoint.idsAt(batch)
    val names = ids.map { case (s, i) => (s.operator, s.store) -> i }
    perform(Protocol.BatchPlanning(Protocol.Batch(batch, isOwn, names, world.placement)))
    if (!isDead) {
      val decision = state.decision.get
      if (decision.batch.number != batch)
        throw new Violation(s"batch $batch got the tables of batch ${decision.batch.number}")
      if (!checkpoint.planLog.isDamaged)
        world.oracle.checkTables(batch, decision.before) // else the tasks must find out
      if (world.dice.chance(0.1)) { // the rule may run twice for a batch
        perform(Protocol.BatchPlanning(Protocol.Batch(batch, isOwn, names, world.placement)))
        if (state.decision.get != decision)
          throw new Violation(s"batch $batch was planned twice, and got other tables")
      }
      world.handedOut(batch, decision.after)
      world.trace(
        s"$run plans batch $batch: ${decision.after.map(_._2).mkString(", ")}, " +
          s"sealed ${decision.sealedSteps.map(_.id).mkString(" ")}, announced ${decision.announced.map(_.id).mkString(" ")}"
      )
      world.steps += decision.sealedSteps.size
      if (!isDead) { sweep(decision, ids); launch(decision, ids) }
    }
  }

  private def launch(decision: Protocol.Decision, ids: Map[StoreId, Vector[String]]): Unit = {
    world.planted.beforeBatch(decision)
    accepted.clear()
    val actions = if (world.faults.strikes(Fault.TwoActions)) 2 else 1
    val offset = checkpoint.offsets(batch)
    stages = Vector
      .tabulate(actions)(a => setup.groups.map(g => () => stageOf(decision, ids, g.id, a, offset)))
      .flatten
    stage = None
    running.clear()
    waiting.clear()
    phase = Running
    world.changed()
  }

  private def stageOf(
      decision: Protocol.Decision,
      ids: Map[StoreId, Vector[String]],
      group: Long,
      action: Int,
      offset: Long
  ): Stage = {
    val sources = decision.sealedSteps.find(_.id.group == group).fold(Sources.None) { a =>
      val placed = decision.batch.placement(group)
      val addresses = placed.indices
        .flatMap(w => world.executor(lastRan.getOrElse((group, w), placed(w))).map(w -> _.address))
        .toMap
      Sources(a.id.toString, addresses, 0, 0)
    }
    val padded = ids.map { case (store, i) =>
      store -> i.padTo(decision.after(group).workers, NoId)
    } // rule 5
    Stage(this, decision, group, action, Rows.of(setup, group, batch, offset), padded, sources)
  }

  private def runStage(): Unit = stage match {
    case None if stages.isEmpty => phase = Committing
    case None =>
      stage = Some(stages.head())
      stages = stages.tail
      isStageAgain = false
      waiting ++= world.dice.shuffle(Vector.range(0, workers(stage.get)))
      attempts.clear()
    case Some(s) =>
      if (waiting.nonEmpty && (running.isEmpty || world.dice.chance(0.5)))
        send(s, waiting.remove(0))
      else if (running.nonEmpty) advance(world.dice.pick(running))
      else if (!isStageAgain && world.faults.strikes(Fault.StageAgain)) { // its shuffle files were lost: some tasks run again
        isStageAgain = true
        waiting ++= Vector.range(0, workers(s)).filter(_ => world.dice.chance(0.4))
      } else stage = None
  }

  private def workers(s: Stage): Int = s.decision.after(s.group).workers

  private def send(s: Stage, worker: Int): Unit = {
    attempts(worker) += 1
    if (attempts(worker) > 4 && batch < world.oracle.settled)
      die("another driver is far ahead") // what it reads may be swept
    else if (attempts(worker) > 60)
      throw new Violation(
        s"$run batch $batch worker $worker: no attempt of ${attempts(worker)} succeeds"
      )
    if (attempts(worker) > 6) world.killZombies()
    val wanted = world.placement(s.group)(worker)
    val executor =
      if (world.faults.strikes(Fault.ElsewhereSent)) world.dice.pick(world.executors)
      else world.executor(wanted).getOrElse(world.dice.pick(world.executors))
    running += new TaskAttempt(world, s, worker, executor, world.nextNumber(), world.message)
  }

  private def advance(task: TaskAttempt): Unit =
    if (task.isDone) accept(task)
    else {
      step(task)
      if (!task.isDone && world.faults.strikes(Fault.TaskGivenUp)) giveUp(task)
    }

  /** One phase of a running task; sends its worker again where it fails. */
  private def step(task: TaskAttempt): Unit =
    world.attempt(task) match {
      case None => if (task.isDone) accept(task)
      case Some(_) => running -= task; waiting += task.worker
    }

  private def accept(task: TaskAttempt): Unit = {
    running -= task
    val key = (task.stage.group, task.worker)
    if (accepted.contains(key)) world.trace(s"$task is not the first")
    else { accepted(key) = task; world.trace(s"$task is accepted") }
    lastRan(key) = task.executor.name
    if (
      !setup.isV2 && accepted(key).written != task.written && accepted(key).written.toMap.view
        .mapValues(_.toMap)
        .toMap != task.written.toMap.view
        .mapValues(_.toMap)
        .toMap
    )
      throw new Violation(
        s"$task wrote other values than ${accepted(key)}, under checkpoint format v1"
      )
  }

  private def giveUp(task: TaskAttempt): Unit = {
    world.trace(s"$task is given up")
    running -= task
    waiting += task.worker
    world.makeZombie(task)
  }

  /** An executor is gone: with its tasks, or so it seems. */
  def lost(executor: Executor, isCutOff: Boolean): Unit = {
    running.toVector
      .filter(_.executor eq executor)
      .foreach(task => if (isCutOff) giveUp(task) else { running -= task; waiting += task.worker })
    if (isStarted) perform(Protocol.ExecutorLost(executor.name))
  }

  /** One phase of some task, while this driver is paused: its executors are not. */
  def tasksGoOn(): Unit = running
    .find(t => !t.isDone)
    .foreach(t => if (world.attempt(t).isDefined) { running -= t; waiting += t.worker })

  private def commit(): Unit = writing(s"commit log $batch") {
    if (checkpoint.commits.contains(batch)) die(s"commit log $batch is there")
    else {
      val after = state.decision.get.after
      checkpoint.commits(batch) =
        if (!setup.isV2) Map.empty
        else
          (for { g <- setup.groups; s <- setup.storesOf(g.id) } yield s -> Vector.tabulate(
            after(g.id).workers
          )(w => accepted((g.id, w)).ids(s))).toMap
      if (batch != world.oracle.settled)
        throw new Violation(s"batch $batch is committed after version ${world.oracle.settled}")
      world.oracle.commit(accepted.valuesIterator.flatMap(_.written.iterator).toVector, after)
      world.batches += 1
      world.trace(s"$run commits batch $batch: ${checkpoint.commits(batch)}")
      batch += 1
      isOwn = false
      phase = WritingOffset
    }
  }

  /** Rules 27 and 28. After the query went back, the version to go by may be older than one that a
    * sweep went by before: then there is none.
    */
  private def sweep(decision: Protocol.Decision, ids: Map[StoreId, Vector[String]]): Unit = {
    val oldest = batch - setup.retained
    if (oldest > 0 && batch % setup.sweepEvery == 0) {
      val tables = setup.groups.map(g => g.id -> state.history.tableAt(g.id, oldest - 1)).toMap
      try
        world.sweeping(
          Settled(oldest, tables, checkpoint.idsAt(oldest)),
          Settled(batch, decision.before, ids)
        )
      catch {
        case e: Violation => throw e
        case e: Exception
            if batch < world.oracle.settled || oldest < world.oracle.oldest || world.isRefusal(e) =>
          world.trace(s"$run does not sweep: $e")
      }
    }
  }

  def submit(plan: Plan): Unit = perform(Protocol.PlanSubmitted(plan))
  def cancel(planId: String): Unit = perform(Protocol.PlanCancelled(planId))

  /** Gives the protocol an event and does what it commands. */
  def perform(event: Protocol.Event): Unit = if (!isDead) {
    val (next, commands) = Protocol(state, event)
    state = next
    commands.foreach {
      case Protocol.Append(record) => append(record)
      case Protocol.HandOut(_) => ()
      case Protocol.Fail(reason) => die(reason)
    }
  }

  private def append(record: LogRecord): Unit = writing("the plan log") {
    val number = state.history.nextNumber
    val found = world.planted.append(checkpoint.planLog, number, record)
    world.trace(s"$run appends record $number, ${found.fold("done")(f => s"found $f")}: $record")
    if (found.isEmpty && world.faults.strikes(Fault.AppendUnsure))
      perform(Protocol.NotAppended(record, None))
    else
      perform(
        found.fold[Protocol.Event](Protocol.Appended(record))(f =>
          Protocol.NotAppended(record, Some(f))
        )
      )
  }

  private def writing(what: String)(write: => Unit): Unit = if (!isDead) {
    if (world.faults.strikes(Fault.DriverDies)) die(s"before $what")
    else { write; if (!isDead && world.faults.strikes(Fault.DriverDies)) die(s"after $what") }
  }

  def die(reason: String): Unit = if (!isDead) {
    world.trace(s"$run dies: $reason")
    isDead = true
    running.toVector.foreach(task =>
      if (world.dice.chance(0.5)) world.makeZombie(task) else if (!task.isDone) task.fail()
    )
    running.clear()
    world.changed()
  }
}

object Driver {

  /** In place of an id where a worker has no state at the version. */
  val NoId = ""

  sealed private trait Phase
  private case object Starting extends Phase
  private case object ReadingLog extends Phase
  private case object ReadingOffsets extends Phase
  private case object WritingOffset extends Phase
  private case object ReadingLogLate extends Phase
  private case object CheckingCommits extends Phase
  private case object Planning extends Phase
  private case object Running extends Phase
  private case object Committing extends Phase
}
