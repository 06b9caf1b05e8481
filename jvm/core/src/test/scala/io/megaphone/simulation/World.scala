// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.checkpoint.Recovery
import io.megaphone.checkpoint.planlog.History
import io.megaphone.errors.{
  DamagedFileException, DetachedLeaseException, LeaseTimeoutException, MissingFileException,
  PlanLogMismatchException
}
import io.megaphone.format.{ExecutorAddress, StoreId}
import io.megaphone.placement.Seat
import io.megaphone.plan.RoutingTable
import io.megaphone.runtime.{Arrivals, ClusterView, Committed, Orders}
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.{BlockName, PushedFile}

/** All that exists in one schedule: the checkpoint, the executors, the drivers, zombies, messages
  * on their way, and the oracle that knows what is true.
  */
final class World(val setup: Setup, val dice: Dice, val trace: Trace, bug: Option[Bug]) {
  val faults = new Faults(dice, setup.faults, trace)
  val checkpoint = new Checkpoint(setup, faults)
  val oracle = new Oracle(setup)
  val planted = new Planted(this, bug)
  private val recoveries = setup.stores.map(s => s -> planted.recovery(checkpoint.files(s))).toMap

  val executors: mutable.ArrayBuffer[Executor] = mutable.ArrayBuffer.empty
  val drivers: mutable.ArrayBuffer[Driver] = mutable.ArrayBuffer.empty
  private val zombies = mutable.ArrayBuffer.empty[TaskAttempt]
  private val reporting = mutable.LinkedHashSet.empty[Executor] // a task has brought them news
  private val lateOrders = mutable.ArrayBuffer.empty[(Executor, Orders)]
  private val lateCommits = mutable.ArrayBuffer.empty[(Driver, Committed)]
  private val lateFiles = mutable.ArrayBuffer.empty[(Executor, PushedFile)]
  private val background = mutable.ArrayBuffer.empty[(Driver, () => Unit)]
  private val handed = mutable.HashMap.empty[Long, Map[Long, RoutingTable]]
  private val broken = mutable.HashSet.empty[Long]
  private var gone = Vector.empty[ExecutorAddress] // the executors that the driver may still see
  private var lastNumber = 0L

  /** The executors that the user has emptied. */
  val draining: mutable.LinkedHashSet[String] = mutable.LinkedHashSet.empty

  /** A violation at a place whose exceptions the code under test may catch. */
  var violation = Option.empty[Violation]

  /** What happened so far. */
  var counts = Counts()

  for (_ <- 1 to setup.executors) join()

  def nextNumber(): Long = { lastNumber += 1; lastNumber }
  def recovery(store: StoreId): Recovery = recoveries(store)
  def executor(name: String): Option[Executor] = executors.find(_.name == name)
  def isLive(run: String): Boolean = drivers.exists(d => d.id == run && d.live.nonEmpty)

  /** The executors as a driver sees them: one that is gone may still be listed. */
  def clusterView: ClusterView = {
    val live = executors.iterator.map(_.address).toVector
    val isStale = faults.strikes(Fault.ClusterStale, gone.nonEmpty)
    val leaving = live.filter(_ => faults.strikes(Fault.ExecutorLeaves, live.size > 1))
    ClusterView(
      if (isStale) live ++ gone.lastOption else live,
      leaving.map(_.id).toSet,
      draining.toSet,
      live.map(e => e.id -> (1 + e.id.last % 3)).toMap
    )
  }

  /** Whether some executor is left that workers can go to. */
  def mustEmpty: Boolean = executors.exists(e => !draining(e.name))

  /** The user has an executor emptied, or changes their mind. */
  def drain(): Unit = {
    val free = executors.filterNot(e => draining(e.name))
    if (free.size > 1) {
      draining += dice.pick(free).name
      trace(s"the user drains ${draining.last}")
      drivers.foreach(_.clusterChanged())
    }
  }
  def undrain(): Unit = dice.pickOption(draining.toVector).foreach { name =>
    draining -= name
    trace(s"the user keeps $name")
    drivers.foreach(_.clusterChanged())
  }

  def join(): Unit = executors += new Executor(s"e${nextNumber()}", this)

  /** An executor is gone, or the driver thinks so and its tasks go on. */
  def lose(executor: Executor, isCutOff: Boolean): Unit = {
    trace(s"${executor.name} is ${if (isCutOff) "cut off" else "dead"}")
    executors -= executor
    reporting -= executor
    draining -= executor.name
    gone :+= executor.address
    executor.isAlive = false
    if (!isCutOff) zombies.filterInPlace(_.executor ne executor)
    if (executors.isEmpty) join()
    drivers.foreach(d => if (!d.isDead) d.lost(executor, isCutOff))
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

  /** Whether what the attempt does matters to nobody any more. */
  def isObsolete(task: TaskAttempt): Boolean = task.isZombie || task.stage.batch < oracle.settled

  /** Lets an attempt do one phase; returns the exception if it failed as attempts may. */
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
    * or what is missing. A file that the state needs is never swept.
    */
  def isRefusal(e: Throwable): Boolean = checkpoint.planLog.isDamaged && (e match {
    case missing: MissingFileException =>
      !checkpoint.files.valuesIterator.exists(_.wasSwept(missing.file))
    case _: PlanLogMismatchException | _: DamagedFileException => true
    case _ => false
  })

  /** Whether work in the background may end with the error: it is tried again another time. */
  def isExpected(e: Throwable): Boolean = e.isInstanceOf[InjectedFault] || isRefusal(e)

  /** What the plan log says. Throws Refused if it is damaged and says so. */
  def history: History =
    try checkpoint.planLog.history
    catch { case e: Exception if isRefusal(e) => throw new Refused(e) }

  /** What was handed out for a batch is all that is ever handed out for it. */
  def handedOut(batch: Long, tables: Map[Long, RoutingTable]): Unit = {
    val first = handed.getOrElseUpdate(batch, tables)
    if (!Oracle.areAlike(first, tables) && !checkpoint.planLog.isDamaged)
      throw new Violation(s"batch $batch got $tables, and $first before")
  }

  /** The step of a batch cannot be carried out: most runs that try die of it. */
  def breakStep(batch: Long): Unit = broken += batch
  def isBroken(batch: Long): Boolean = broken(batch) && dice.chance(0.8)

  /** A block is made for another executor only. */
  def checkTravels(block: BlockName): Unit = {
    // An image of the settled state is of the batch that reads it; a commit publishes blocks of the
    // batch before.
    val batches = Seq(block.name.version, block.name.version - 1)
    for {
      driver <- drivers.find(_.id == block.key.run)
      placements = batches.flatMap(driver.placementAt(_, block.step.group))
      if placements.nonEmpty
      if placements.forall(p => p.lift(block.source) == p.lift(block.target))
    } violation = Some(new Violation(s"$block is made for a worker of the same executor"))
  }

  /** The promise that a schedule without faults must keep: after a run's first batch nothing is
    * read from files, except for steps that were sealed, and relocations that were taken beside
    * steps, because patience was over.
    */
  def checkPromise(stage: Stage, worker: Int, arrivals: Arrivals): Unit =
    if (faults.isFree && !stage.driver.isFirst(stage.batch)) {
      if (arrivals.isRecovered)
        throw new Violation(
          s"batch ${stage.batch} recovered a worker from files, and no fault was there"
        )
      val isPatient = stage.plan.decision.sealedSteps.forall(a =>
        a.id.group != stage.group || stage.batch - a.since < setup.settings.patienceBatches
      )
      val hasWaited = !stage.driver.isTakenInHaste(stage.batch, Seat(stage.group, worker))
      if (isPatient && hasWaited && arrivals.binsFromCheckpoint > 0)
        throw new Violation(
          s"batch ${stage.batch} took ${arrivals.binsFromCheckpoint} bins from files with no fault"
        )
    }

  def promoted(): Unit = counts = counts.copy(promoted = counts.promoted + 1)

  /** An executor will report soon. */
  def wantsToReport(executor: Executor): Unit = reporting += executor

  /** An executor reports, and gets its orders: at once, late or never. */
  def report(executor: Executor): Unit = if (!faults.strikes(Fault.MessageLost)) {
    reporting -= executor
    val report = planted.report(executor.agent.report)
    drivers.filterNot(_.isPaused).flatMap(_.live).foreach(_.reported(report))
    def runs = drivers.toVector.flatMap(_.live).flatMap(_.ordersFor(executor.name))
    val orders = Orders.of(() => nextNumber(), () => runs, draining(executor.name))
    if (faults.strikes(Fault.MessageLate)) lateOrders += (executor -> orders)
    else executor.hear(orders)
  }

  /** A task tells its driver of a commit: at once, late, twice or never. */
  def tell(driver: Driver, committed: Committed): Unit =
    if (!faults.strikes(Fault.MessageLost)) {
      if (faults.strikes(Fault.MessageLate)) lateCommits += (driver -> committed)
      else driver.live.foreach(_.committed(committed))
      if (faults.strikes(Fault.MessageTwice)) lateCommits += (driver -> committed)
    }

  /** A file is on its way to an executor: it comes at once, late, twice or never. */
  def push(file: PushedFile, to: Executor): Unit = if (!faults.strikes(Fault.MessageLost)) {
    if (faults.strikes(Fault.MessageLate)) lateFiles += (to -> file) else to.agent.pushed.add(file)
    if (faults.strikes(Fault.MessageTwice)) lateFiles += (to -> file)
  }

  def deliverLate(): Unit = {
    if (lateFiles.nonEmpty) {
      val (executor, file) = lateFiles.remove(dice.below(lateFiles.size))
      executor.agent.pushed.add(file)
    }
    if (lateOrders.nonEmpty) {
      val (executor, orders) = lateOrders.remove(dice.below(lateOrders.size))
      executor.hear(orders)
    }
    if (lateCommits.nonEmpty) {
      val (driver, committed) = lateCommits.remove(dice.below(lateCommits.size))
      driver.live.foreach(_.committed(committed))
    }
  }

  /** A driver's thread in the background does something, one thing after the other. */
  def later(driver: Driver)(work: => Unit): Unit = background += (driver -> (() => work))

  /** A background thread of the driver or of some executor does something. */
  def work(): Unit =
    if (background.nonEmpty && dice.chance(0.3)) {
      val (driver, work) = background.remove(0)
      if (!driver.isDead) work()
    } else if (reporting.nonEmpty && dice.chance(0.3)) report(reporting.head)
    else dice.pick(executors).work()

  def canGoBack: Boolean = oracle.settled > 1

  /** The user deletes the last batches from the checkpoint and starts the query again. Under
    * checkpoint format v1 no task of before may live on: its files would have the names of the new
    * ones.
    */
  def goBack(): Unit = {
    val oldest = math.max(math.max(1, oracle.oldest), oldestCommitted + 1)
    val version = math.max(oldest, oracle.settled - dice.below(setup.retained + 1))
    trace(s"the query goes back from version ${oracle.settled} to $version")
    drivers.foreach(_.die("stopped by the user"))
    background.clear()
    if (!setup.isV2) { zombies.foreach(_.fail()); zombies.clear() }
    checkpoint.goBack(version)
    oracle.goBack(version)
    handed.filterInPlace((batch, _) => batch < version)
    broken.filterInPlace(_ < version)
  }

  private def oldestCommitted: Long = checkpoint.commits.headOption.fold(0L)(_._1)

  /** The query is stopped, and its plan log is restored from a copy that was made earlier than that
    * of the rest.
    */
  def restoreEarlierPlanLog(): Unit = {
    val log = checkpoint.planLog
    val numbers = log.numbers()
    val next =
      if (dice.chance(0.7)) log.nextNumber - 1 else numbers(1 + dice.below(numbers.size - 1))
    trace(s"the plan log is left with the records before $next")
    drivers.foreach(_.die("stopped by the user"))
    log.damage(next)
  }

  /** Once nothing is left to do: no replica, block, or memory of a dead run may remain (P5). */
  def checkLeaks(): Unit = {
    var rounds = 0
    while (zombies.nonEmpty && rounds < 10000) { haunt(); rounds += 1 }
    executors.foreach(report)
    while (lateOrders.nonEmpty || lateFiles.nonEmpty) deliverLate()
    executors.foreach { e =>
      var replicas = Vector.empty[ReplicaKey]
      e.registry.keepReplicas { k => replicas :+= k; true }
      if (replicas.nonEmpty)
        throw new Violation(s"executor ${e.name} keeps replicas that no duty names: $replicas")
      if (e.publishedCount > 0 || e.agent.publisher.isBehind)
        throw new Violation(s"executor ${e.name} keeps blocks of steps that are over")
      if (mustEmpty && draining(e.name) && e.registry.holdingsCount > 0)
        throw new Violation(s"executor ${e.name} keeps state, and is to be emptied")
      if (!e.registry.runs.forall(isLive))
        throw new Violation(
          s"executor ${e.name} keeps memory of dead runs: ${e.registry.runs}"
        )
    }
    drivers.foreach(_.die("stopped by the user at the end"))
    while (zombies.nonEmpty && rounds < 20000) { haunt(); rounds += 1 }
    executors.foreach(report)
    executors.foreach { e =>
      if (e.agent.pushed.heldBytes > 0)
        throw new Violation(s"executor ${e.name} keeps files of a run that is over")
      if (!e.registry.isEmpty)
        throw new Violation(
          s"executor ${e.name} keeps memory of ${e.registry.runs} after the query"
        )
    }
  }
}
