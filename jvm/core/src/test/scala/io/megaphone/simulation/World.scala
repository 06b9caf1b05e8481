// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.checkpoint.Recovery
import io.megaphone.errors.{DamagedFileException, MissingFileException, PlanLogMismatchException}
import io.megaphone.format.ReplicaKey
import io.megaphone.plan.RoutingTable
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.Arrivals
import io.megaphone.state.{DetachedLeaseException, LeaseTimeoutException}

/** All that exists in one schedule: the checkpoint, the executors, the drivers, zombies, messages
  * on their way, and the oracle that knows what is true.
  */
final class World(val setup: Setup, val dice: Dice, val trace: Trace, bug: Option[Bug]) {
  val faults = new Faults(dice, setup.faults, trace)
  val checkpoint = new Checkpoint(setup, faults)
  val oracle = new Oracle(setup)
  val planted = new Planted(this, bug)
  val sweeping = new Sweeping(this)
  private val recoveries = setup.stores.map(s => s -> planted.recovery(checkpoint.files(s))).toMap

  val executors: mutable.ArrayBuffer[Executor] = mutable.ArrayBuffer.empty
  val drivers: mutable.ArrayBuffer[Driver] = mutable.ArrayBuffer.empty
  private val zombies = mutable.ArrayBuffer.empty[TaskAttempt]
  private val lateMessages = mutable.ArrayBuffer.empty[(Executor, Message)]
  private val handed = mutable.HashMap.empty[Long, Map[Long, RoutingTable]]
  private var placed: Map[Long, Vector[String]] = Map.empty
  private var lastNumber = 0L
  private var messageNow: Option[Message] = None

  /** What happened so far. */
  var batches, steps, deleted = 0L

  for (_ <- 1 to setup.executors) join()
  placed = setup.groups
    .map(g => g.id -> Vector.tabulate(setup.workersMax)(w => executors(w % executors.size).name))
    .toMap

  def nextNumber(): Long = { lastNumber += 1; lastNumber }
  def recovery(store: StoreId): Recovery = recoveries(store)
  def executor(name: String): Option[Executor] = executors.find(_.name == name)
  def isLive(run: String): Boolean = drivers.exists(d => d.run == run && !d.isDead)

  /** By group: the executor where each worker is wanted. */
  def placement: Map[Long, Vector[String]] = placed

  /** What the driver would tell the executors now. */
  def message: Message = messageNow.getOrElse {
    val live = drivers.filterNot(_.isDead).toVector
    val steps = live.flatMap(d => Protocol.liveSteps(d.state).map(id => d.run -> id.toString)).toSet
    val m = Message(
      nextNumber(),
      live.map(d => d.run -> d.state.decision.fold(0L)(_.batch.number)).toMap,
      steps,
      live.flatMap(d => Protocol.duties(d.state, executor(_).map(_.address)))
    )
    messageNow = Some(m)
    m
  }

  /** Something that messages tell has changed. */
  def changed(): Unit = messageNow = None

  def join(): Unit = {
    executors += new Executor(s"e${nextNumber()}", this)
    changed()
  }

  /** An executor is gone, or the driver thinks so and its tasks go on. */
  def lose(executor: Executor, isCutOff: Boolean): Unit = {
    trace(s"${executor.name} is ${if (isCutOff) "cut off" else "dead"}")
    executors -= executor
    executor.isAlive = false
    if (!isCutOff) zombies.filterInPlace(_.executor ne executor)
    if (executors.isEmpty) join()
    placed = placed.map { case (g, names) =>
      g -> names.map(n => if (n == executor.name) dice.pick(executors).name else n)
    }
    drivers.foreach(d => if (!d.isDead) d.lost(executor, isCutOff))
    changed()
  }

  def makeZombie(task: TaskAttempt): Unit = if (!task.isDone) {
    task.isZombie = true
    task.isKilled = !faults.strikes(Fault.KillUnheard)
    zombies += task
  }

  def killZombies(): Unit = zombies.foreach(_.isKilled = true)

  /** Under checkpoint format v1 nothing of a batch outlives the versions that are retained: a file
    * written that late may need others that are gone, which no store of fixed file names can help.
    */
  def isTooLate(batch: Long): Boolean =
    !setup.isV2 && batch >= 0 && batch <= oracle.settled - setup.retained

  /** One phase of a zombie. */
  def haunt(): Unit = {
    zombies.filterInPlace { z => if (isTooLate(z.stage.batch)) z.fail(); !z.isDone }
    if (zombies.nonEmpty) {
      val zombie = dice.pick(zombies)
      attempt(zombie)
      if (zombie.isDone) zombies -= zombie
    }
  }

  def hasZombies: Boolean = zombies.nonEmpty

  /** Whether what the attempt does matters to nobody any more. */
  def isObsolete(task: TaskAttempt): Boolean = task.isZombie || task.stage.batch < oracle.settled

  /** Lets an attempt do one phase; the exception, if it failed as attempts may. */
  def attempt(task: TaskAttempt): Option[Throwable] =
    try { task.step(); None }
    catch {
      case e @ (_: InjectedFault | _: LeaseTimeoutException | _: DetachedLeaseException) =>
        trace(s"$task fails: ${e.getMessage}")
        task.fail()
        Some(e)
      case e: Throwable if isObsolete(task) =>
        trace(s"$task is obsolete and fails: $e")
        task.fail()
        Some(e)
      case e: Violation => throw e
      case e: Throwable if isRefusal(e) => throw new Refused(e)
      case e: Throwable => throw new Violation(s"$task failed without a cause: $e", e)
    }

  /** Whether the error is one that damage of the plan log may lead to: it names what does not fit,
    * or what is missing.
    */
  def isRefusal(e: Throwable): Boolean = checkpoint.planLog.isDamaged && (e match {
    case missing: MissingFileException =>
      !checkpoint.files.valuesIterator.exists(
        _.wasSwept(missing.file)
      ) // one that the state needs is never swept
    case _: PlanLogMismatchException | _: DamagedFileException => true
    case _ => false
  })

  /** Rule 6: what was handed out for a batch is all that is ever handed out for it. */
  def handedOut(batch: Long, tables: Map[Long, RoutingTable]): Unit = {
    val first = handed.getOrElseUpdate(batch, tables)
    if (first != tables && !checkpoint.planLog.isDamaged)
      throw new Violation(s"batch $batch got $tables, and $first before")
  }

  /** The promise that a schedule without faults must keep: after a run's first batch nothing is
    * read from files, but for steps that were sealed because patience was over.
    */
  def checkPromise(stage: Stage, opened: Arrivals): Unit = if (
    faults.isFree && !stage.driver.isFirst(stage.batch)
  ) {
    if (opened.isRecovered)
      throw new Violation(
        s"batch ${stage.batch} recovered a worker from files, and no fault was there"
      )
    val isPatient = stage.decision.sealedSteps.forall(a =>
      a.id.group != stage.group || stage.batch - a.since < setup.settings.patienceBatches
    )
    if (isPatient && opened.binsFromCheckpoint > 0)
      throw new Violation(
        s"batch ${stage.batch} took ${opened.binsFromCheckpoint} bins from files, and no fault was there"
      )
  }

  /** A message goes out to an executor: at once, late or never. */
  def tell(executor: Executor): Unit =
    if (faults.strikes(Fault.MessageLate)) lateMessages += (executor -> message)
    else if (!faults.strikes(Fault.MessageLost)) executor.hear(message)

  def deliverLate(): Unit = if (lateMessages.nonEmpty) {
    val (executor, m) = lateMessages.remove(dice.below(lateMessages.size))
    executor.hear(m)
  }

  /** A background thread of some executor does something, and the driver may hear of it. */
  def work(): Unit = {
    val executor = dice.pick(executors)
    executor.work().foreach { case (run, news) =>
      if (!faults.strikes(Fault.MessageLost))
        drivers.find(d => d.run == run && d.isReady).foreach(_.perform(news))
    }
  }

  /** The user deletes the last batches from the checkpoint and starts the query again. Under
    * checkpoint format v1 no task of before may live on: its files would have the names of the new
    * ones.
    */
  def goBack(): Unit = if (oracle.settled > 1) {
    val version =
      math.max(math.max(1, oracle.oldest), oracle.settled - dice.below(setup.retained + 1))
    trace(s"the query goes back from version ${oracle.settled} to $version")
    drivers.foreach(_.die("stopped by the user"))
    if (!setup.isV2) { zombies.foreach(_.fail()); zombies.clear() }
    checkpoint.goBack(version)
    oracle.goBack(version)
    handed.filterInPlace((batch, _) => batch < version)
  }

  /** The query is stopped, and its plan log is restored from a copy that was made earlier than that
    * of the rest.
    */
  def restoreEarlierPlanLog(): Unit = if (checkpoint.planLog.size > 1) {
    val left =
      if (dice.chance(0.7)) checkpoint.planLog.size - 1
      else 1L + dice.below(checkpoint.planLog.size.toInt - 1)
    trace(s"of the plan log only $left records are left")
    drivers.foreach(_.die("stopped by the user"))
    checkpoint.planLog.truncate(left.toInt)
  }

  /** Once nothing is left to do: no copy, block, or memory of a dead run may remain (P5). */
  def checkLeaks(): Unit = {
    var rounds = 0
    while (zombies.nonEmpty && rounds < 10000) { haunt(); rounds += 1 }
    changed()
    executors.foreach(_.hear(message))
    while (lateMessages.nonEmpty) deliverLate()
    executors.foreach { e =>
      var copies = Vector.empty[ReplicaKey]
      e.registry.keepCopies { k => copies :+= k; true }
      if (copies.nonEmpty)
        throw new Violation(s"executor ${e.name} keeps copies that no duty names: $copies")
      if (e.hasBlocks)
        throw new Violation(s"executor ${e.name} keeps blocks of steps that are over")
      if (!e.registry.runs.forall(isLive))
        throw new Violation(s"executor ${e.name} keeps memory of dead runs: ${e.registry.runs}")
    }
    drivers.foreach(_.die("stopped by the user at the end"))
    while (zombies.nonEmpty && rounds < 20000) { haunt(); rounds += 1 }
    changed()
    executors.foreach(_.hear(message))
    executors.foreach(e =>
      if (!e.registry.isEmpty)
        throw new Violation(
          s"executor ${e.name} keeps memory of ${e.registry.runs} after the query"
        )
    )
  }
}
