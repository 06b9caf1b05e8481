// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.runtime.BatchPlan

/** The tasks of a driver's batches, sent as Spark's scheduler does:
  *
  *   1. The stage of each group runs after the one before; `foreachBatch` may run all of them
  *      twice.
  *   1. Each worker's task goes where its store is, or is wanted, or elsewhere. One that fails is
  *      sent again; so is one that the driver gives up, which goes on as a zombie.
  *   1. A stage whose output is lost runs some of its tasks again.
  *   1. The first attempt of a worker that ends is accepted.
  */
final class BatchTasks(driver: Driver, world: World) {
  private val setup = world.setup
  private var batch = -1L
  private var stages = Vector.empty[() => Stage]
  private var stage: Option[Stage] = None
  private val waiting = mutable.ArrayBuffer.empty[Int] // workers with no attempt running
  private val running = mutable.ArrayBuffer.empty[TaskAttempt]
  private val locations = mutable.HashMap.empty[(Long, Int), String] // as Spark's coordinator has
  private val attempts = mutable.HashMap.empty[Int, Int].withDefaultValue(0)
  private var isStageAgain = false

  /** By group and worker: the attempts of the batch that were accepted. */
  val accepted: mutable.LinkedHashMap[(Long, Int), TaskAttempt] = mutable.LinkedHashMap.empty

  /** A batch is planned: its tasks are about to run. */
  def begin(plan: BatchPlan): Unit = {
    batch = plan.decision.batch.number
    accepted.clear()
    val actions = if (world.faults.strikes(Fault.TwoActions)) 2 else 1
    val offset =
      world.checkpoint.offsets.getOrElse(batch, throw new DriverDied("the offset log is gone"))
    val counter = world.nextNumber()
    stages = Vector
      .tabulate(actions)(action =>
        setup.groups.map { g => () =>
          Stage(driver, plan, g.id, action, Rows.of(setup, g.id, batch, offset), counter)
        }
      )
      .flatten
    stage = None
    running.clear()
    waiting.clear()
  }

  /** Whether the last stage has begun. */
  def haveAllBegun: Boolean = stages.isEmpty

  /** Whether all stages are over. */
  def areOver: Boolean = stage.isEmpty && stages.isEmpty

  /** Begins a stage, sends a task, lets one do a phase, or ends a stage. */
  def next(): Unit = stage match {
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
      else if (!isStageAgain && world.faults.strikes(Fault.StageAgain)) {
        // Its shuffle files were lost: some tasks run again.
        isStageAgain = true
        waiting ++= Vector.range(0, workers(s)).filter(_ => world.dice.chance(0.4))
      } else stage = None
  }

  private def workers(s: Stage): Int = s.tables.after.workers

  private def send(s: Stage, worker: Int): Unit = {
    attempts(worker) += 1
    if (attempts(worker) > 4 && batch < world.oracle.settled)
      driver.die("another driver is far ahead") // what it reads may be swept
    else if (attempts(worker) > 60)
      throw new Violation(
        s"${driver.id} batch $batch worker $worker: no attempt of ${attempts(worker)} succeeds"
      )
    if (attempts(worker) > 6) world.killZombies()
    // Dice alone may fail sixty attempts, if chains are long: the last thirty are without faults.
    if (attempts(worker) > 30) world.faults.quiet = true
    val open = world.executors.filter(world.getsTasks)
    val wanted = locations.get((s.group, worker)).flatMap(name => open.find(_.name == name))
    val others = open.filterNot(wanted.contains)
    val executor =
      if (world.faults.strikes(Fault.ElsewhereSent, others.nonEmpty)) world.dice.pick(others)
      else wanted.getOrElse(world.dice.pick(open))
    if (!driver.isDead)
      running += new TaskAttempt(world, s, worker, executor, world.nextNumber())
  }

  private def advance(task: TaskAttempt): Unit =
    if (task.isDone) accept(task)
    else {
      step(task)
      if (!task.isDone && world.faults.strikes(Fault.TaskGivenUp)) giveUp(task)
    }

  /** One phase of a running task; sends its worker again if it fails. */
  private def step(task: TaskAttempt): Unit =
    world.attempt(task) match {
      case None => if (task.isDone) accept(task)
      case Some(_) => running -= task; waiting += task.worker
    }

  private def accept(task: TaskAttempt): Unit = {
    running -= task
    val key = (task.stage.group, task.worker)
    val first = accepted.getOrElseUpdate(key, task)
    world.trace(s"$task is ${if (first eq task) "accepted" else "not the first"}")
    if (!setup.isV2 && first.written != task.written && valuesOf(first) != valuesOf(task))
      throw new Violation(s"$task wrote other values than $first, under checkpoint format v1")
  }

  private def valuesOf(task: TaskAttempt) = task.written.toMap.view.mapValues(_.toMap).toMap

  private def giveUp(task: TaskAttempt): Unit = {
    world.trace(s"$task is given up")
    running -= task
    waiting += task.worker
    world.makeZombie(task)
  }

  /** Spark's coordinator hears where a worker's store is, or is wanted. */
  def located(group: Long, worker: Int, executor: String): Unit =
    locations((group, worker)) = executor

  /** Where Spark's coordinator has a worker's store, or wants it. */
  def locationOf(group: Long, worker: Int): Option[String] = locations.get((group, worker))

  /** Whether a task of the batch under way runs on an executor. */
  def runOn(executor: Executor): Boolean = running.exists(_.executor eq executor)

  /** An executor is gone: with its tasks, or so it seems. */
  def lost(executor: Executor, isCutOff: Boolean): Unit =
    running.toVector.filter(_.executor eq executor).foreach { task =>
      if (isCutOff) giveUp(task) else { running -= task; waiting += task.worker }
    }

  /** One phase of some task, while the driver is paused: its executors are not. */
  def goOn(): Unit = running
    .find(t => !t.isDone)
    .foreach(t => if (world.attempt(t).isDefined) { running -= t; waiting += t.worker })

  /** The driver is gone: a task ends with it, or goes on as a zombie. */
  def end(): Unit = {
    running.toVector.foreach { task =>
      if (world.dice.chance(0.5)) world.makeZombie(task) else if (!task.isDone) task.fail()
    }
    running.clear()
  }
}
