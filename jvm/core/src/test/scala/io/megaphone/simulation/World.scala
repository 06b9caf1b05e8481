// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.checkpoint.Recovery
import io.megaphone.checkpoint.planlog.History
import io.megaphone.errors.{
  DamagedFileException, DetachedLeaseException, LeaseTimeoutException, MissingFileException,
  PlanLogMismatchException
}
import io.megaphone.format.{ExecutorAddress, FileName, Footer, StoreId, WorkerId}
import io.megaphone.pace.Hands
import io.megaphone.placement.Seat
import io.megaphone.plan.RoutingTable
import io.megaphone.runtime.{Arrivals, ClusterView, Drain, Drains}
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.{BlockName, StandbyKeeper}

/** All that exists in one schedule: the checkpoint, the executors, the drivers, zombies, messages
  * on their way, and the oracle that knows what is true.
  */
final class World(val setup: Setup, val dice: Dice, val trace: Trace, bug: Option[Bug]) {
  val faults = new Faults(dice, setup.faults, trace)
  val checkpoint = new Checkpoint(setup, faults)
  val oracle = new Oracle(setup)
  val planted = new Planted(this, bug)
  val mail = new Mail(this)
  val mayGo = new MayGo(this)
  private val recoveries = setup.stores.map(s => s -> planted.recovery(checkpoint.files(s))).toMap

  val executors: mutable.ArrayBuffer[Executor] = mutable.ArrayBuffer.empty
  val drivers: mutable.ArrayBuffer[Driver] = mutable.ArrayBuffer.empty
  private val zombies = mutable.ArrayBuffer.empty[TaskAttempt]
  private val busy = mutable.HashSet.empty[AnyRef] // they are in the midst of something
  private var isMeanwhile = false
  private val background = mutable.ArrayBuffer.empty[(Driver, () => Unit)]
  private val handed = mutable.HashMap.empty[Long, Map[Long, RoutingTable]]
  private val broken = mutable.HashSet.empty[Long]
  private var gone = Vector.empty[ExecutorAddress] // the executors that the driver may still see
  private var lastNumber = 0L
  private var lostAt = 0L // when a copy was lost last

  /** The executors that the user has emptied. */
  val drains = new Drains(() => nextNumber(), new Hands)
  val endings = new Endings(this)

  /** The executors that get no more tasks, and will end; and those that get none for now, because
    * too many have failed there.
    */
  private val leaving, excluded = mutable.LinkedHashSet.empty[String]

  /** What went wrong at a place whose exceptions the code under test may catch. */
  var violation = Option.empty[Throwable]

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
    val unsure = live.filter(_ => faults.strikes(Fault.ExecutorLeaves, live.size > 1))
    viewOf(if (isStale) live ++ gone.lastOption else live, unsure.map(_.id).toSet)
  }

  /** The executors as they are. */
  private def sureView = viewOf(executors.iterator.map(_.address).toVector, Set.empty)

  private def viewOf(listed: Vector[ExecutorAddress], unsure: Set[String]) = {
    val view = ClusterView(
      listed,
      unsure ++ leaving ++ excluded ++ drains.overdue ++ drains.cordoned,
      drains.draining,
      listed.map(e => e.id -> (1 + e.id.last % 3)).toMap
    )
    mayGo.seen(view)
    view
  }

  /** Whether a query may plan no batches for a while: it matters to who is to be emptied only. */
  def mayBeIdle: Boolean = !faults.quiet && drains.open.nonEmpty

  /** Whether some executor is left that workers can go to. */
  def mustEmpty: Boolean = staying.nonEmpty

  /** The executors that are to stay. */
  private def staying = executors.filter(isStaying)
  def isStaying(executor: Executor): Boolean =
    !drains.open(executor.name) && getsTasks(executor)

  /** Whether an executor gets tasks. */
  def getsTasks(executor: Executor): Boolean =
    !leaving(executor.name) && !excluded(executor.name) && !drains.cordoned(executor.name)

  /** The user has an executor emptied, and maybe ended; or has no more time for that, or changes
    * their mind.
    */
  def drain(): Unit =
    if (staying.size > 1) startDrain(dice.pick(staying).name, None, release = dice.chance(0.5))
  def hurry(): Unit =
    dice.pickOption(drains.open.toVector.sorted).foreach(startDrain(_, timeoutMs = Some(0)))

  private def startDrain(
      name: String,
      timeoutMs: Option[Long],
      release: Boolean = false
  ): Unit = {
    trace(
      s"the user drains $name${timeoutMs.fold("")(ms => s" within $ms ms")}" +
        (if (release) ", and has it ended" else "")
    )
    if (!drains.open(name)) executor(name).foreach(mayGo.drainBegins)
    drains.start(name, timeoutMs, release)
    drivers.foreach(_.clusterChanged())
  }
  def undrain(): Unit =
    dice.pickOption((drains.open -- drains.cordoned).toVector.sorted).foreach { name =>
      trace(s"the user keeps $name")
      drains.cancel(name)
      drivers.foreach(_.clusterChanged())
    }

  /** Whether an executor is to be ended once it is empty. */
  def isToEnd(executor: Executor): Boolean =
    drains.get(executor.name, has).exists(drain => drain.release && drains.open(executor.name))

  /** Asks the product whether an executor may go, as a drain that is under way does: it keeps in
    * mind what it sees. Throws a violation if it is wrong to say so.
    */
  def look(executor: Executor): Boolean = drains.open(executor.name) && {
    // Of a query that plans no batches, the news of losses comes before anybody looks.
    drivers.foreach(driver => if (driver.isIdle) driver.clusterChanged(sureView))
    val isFree = drains.get(executor.name, has).exists(_.status == Drain.Drained)
    if (isFree) mayGo.check(executor)
    isFree
  }

  /** Whether a query is taken for one that plans no batches. Only once each executor has reported
    * since a copy was lost: else reports speak of copies that are gone.
    */
  def isAtRest(driver: Driver): Boolean = driver.isIdle && mayGo.haveAllReportedSince(lostAt)

  /** What an executor has that somebody may need, as the driver knows it. */
  def has(executor: String): Drain.OfExecutor = {
    val report = mail.lastReport(executor)
    val queries =
      for (driver <- drivers.toVector; run <- driver.live)
        yield run.footprint.on(executor, driver.id, driver.id, isAtRest(driver), report)
    planted.has(Drain.OfExecutor.of(report, queries))
  }

  /** Executors that are to be emptied and are not, although others could take what they have. */
  def undrained: Vector[Executor] =
    if (mustEmpty) executors.filter(e => drains.open(e.name) && !look(e)).toVector
    else Vector.empty

  /** A copy is gone, or will be: what executors have reported of it is not true any more. */
  def copyLost(): Unit = lostAt = nextNumber()

  /** Once faults have stopped: the user has executors emptied that have no room for what of their
    * workers is elsewhere, and sees to it that some executor has room.
    */
  def relieve(): Unit = if (executors.exists(_.isFull)) {
    if (staying.forall(_.isFull)) join()
    staying
      .filter(e => e.isFull && e.registry.workers(_.areIncomplete).nonEmpty)
      .foreach(e => startDrain(e.name, None))
  }

  /** An executor gets no more tasks, and will end. */
  def decommission(): Unit = if (staying.size > 1) {
    leaving += dice.pick(staying).name
    trace(s"${leaving.last} is about to end")
    drivers.foreach(_.clusterChanged())
  }

  /** An executor gets no tasks for now. */
  def exclude(): Unit = if (staying.size > 1) {
    excluded += dice.pick(staying).name
    trace(s"${excluded.last} gets no tasks for now")
    drivers.foreach(_.clusterChanged())
  }

  /** One of those, or each, gets tasks again. */
  def include(): Unit = dice.pickOption(excluded.toVector).foreach(include(_))
  def includeAll(): Unit = excluded.toVector.foreach(include(_))

  private def include(name: String): Unit = {
    trace(s"$name gets tasks again")
    excluded -= name
    drivers.foreach(_.clusterChanged())
  }

  /** One of those that were about to end does. */
  def endLeaving(): Unit =
    dice.pickOption(executors.filter(e => leaving(e.name))).foreach(lose(_, isCutOff = false))

  /** An executor dies alone, while all is quiet and every worker of it is stood by for. */
  def loseQuietly(): Unit = drivers.filterNot(_.isDead).toVector match {
    case Vector(driver) if staying.size == executors.size && driver.status.isQuiet =>
      for (_ <- 1 to setup.bins; executor <- executors) executor.keepStandbys()
      executors.foreach(mail.report)
      dice.pickOption(executors.filter(driver.status.canDoWithout)).foreach { executor =>
        counts = counts.copy(missed = counts.missed + 1)
        lose(executor, isCutOff = false)
      }
    case _ => ()
  }

  def join(): Unit = executors += new Executor(s"e${nextNumber()}", this)

  /** Does something as one who does nothing else meanwhile. */
  def during[A](actor: AnyRef)(work: => A): A = {
    busy += actor
    try work
    finally busy -= actor
  }
  def isBusy(actor: AnyRef): Boolean = busy(actor)

  /** What the others do while somebody waits for an answer. */
  def meanwhile(): Unit = if (!isMeanwhile) {
    isMeanwhile = true
    try
      for (_ <- 0 to dice.below(8)) {
        val roll = dice.below(100)
        if (roll < 50) stepDriver()
        else if (roll < 75) work()
        else if (roll < 85) haunt()
        else if (roll < 95) mail.report(dice.pick(executors))
        else mail.deliverLate()
      }
    catch { case e: Throwable => violation = violation.orElse(Some(e)) }
    finally isMeanwhile = false
  }
  def mayGoOn: Boolean = !isMeanwhile

  /** A driver is at a point where it may die. */
  def driverMayDie(when: String): Unit =
    if (faults.strikes(Fault.DriverDies)) throw new DriverDied(when)

  /** A driver does one step. If there is none, one starts. */
  def stepDriver(): Unit = {
    val awake = drivers.filter(d => !d.isDead && !d.isPaused)
    if (awake.isEmpty) {
      drivers.filterInPlace(!_.isDead)
      drivers += new Driver(s"r${nextNumber()}", this)
    } else
      dice.pickOption(awake.filterNot(isBusy)).foreach { driver =>
        driver.step()
        val isAlone = drivers.count(!_.isDead) == 1 && !driver.isDead
        if (isAlone && faults.strikes(Fault.DriverPauses)) {
          trace(s"${driver.id} is paused")
          driver.isPaused = true
        }
      }
  }

  /** A driver goes on. Of the reports that came meanwhile it has heard none. */
  def wake(driver: Driver): Unit = {
    trace(s"${driver.id} wakes up")
    driver.isPaused = false
    copyLost()
  }

  /** An executor is gone, or the driver thinks so and its tasks go on. */
  def lose(executor: Executor, isCutOff: Boolean): Unit = {
    trace(s"${executor.name} is ${if (isCutOff) "cut off" else "dead"}")
    executors -= executor
    copyLost()
    mail.forget(executor)
    drains.lost(executor.name)
    leaving -= executor.name
    excluded -= executor.name
    gone :+= executor.address
    executor.isAlive = false
    if (!isCutOff) zombies.filterInPlace(_.executor ne executor)
    if (!executors.exists(getsTasks)) join()
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
    val idle = zombies.filterNot(isBusy)
    idle.foreach(z => if (isTooLate(z.stage.batch)) z.fail())
    zombies.filterInPlace(!_.isDone)
    dice.pickOption(idle.filterNot(_.isDone)).foreach { zombie =>
      attempt(zombie)
      if (zombie.isDone) zombies -= zombie
    }
  }

  /** Whether what the attempt does matters to nobody any more. */
  def isObsolete(task: TaskAttempt): Boolean = task.isZombie || task.stage.batch < oracle.settled

  /** Lets an attempt do one phase; returns the exception if it failed as attempts may. */
  def attempt(task: TaskAttempt): Option[Throwable] =
    try { during(task)(task.step()); None }
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
      val hasWaited = !stage.driver.status.isTakenInHaste(stage.batch, Seat(stage.group, worker))
      if (isPatient && hasWaited && arrivals.binsFromCheckpoint > 0)
        throw new Violation(
          s"batch ${stage.batch} took ${arrivals.binsFromCheckpoint} bins from files with no fault"
        )
    }

  /** The same of what a batch needs later, and of what comes when no batch asks for it. */
  def checkFetched(arrivals: Arrivals, before: Int): Unit =
    if (faults.isFree && arrivals.binsFromCheckpoint > before)
      throw new Violation("bins that were incomplete came from files, and no fault was there")
  def checkRests(executor: Executor): Unit = if (faults.isFree) for {
    driver <- drivers
    run <- driver.live
    worker <- executor.registry.workers(_.cameBetween.fromCheckpoint > 0)
    // Where it has run before, it may be stood by for: that is made from files.
    if run.footprint.executorOf(worker.store.id.operator, worker.worker).contains(executor.name)
  } throw new Violation(s"the rest of $worker came from files, and no fault was there")

  def promoted(): Unit = counts = counts.copy(promoted = counts.promoted + 1)

  /** A driver's thread in the background does something, one thing after the other. */
  def later(driver: Driver)(work: => Unit): Unit = background += (driver -> (() => work))

  /** A background thread of the driver or of some executor does something. */
  def work(): Unit =
    if (background.nonEmpty && dice.chance(0.3)) {
      val (driver, work) = background.remove(0)
      if (!driver.isDead) work()
    } else
      mail.nextToReport.filter(_ => dice.chance(0.3)) match {
        case Some(executor) => mail.report(executor)
        case None => dice.pick(executors).work()
      }

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

  /** An executor that has heard the newest orders keeps, of a run that lives, no state that they
    * leave out and that is too old to be used. Of the files that were sent to it, it keeps those
    * alone that its state may still be brought forward by (P5).
    */
  private def checkKept(executor: Executor): Unit = {
    mail.report(executor)
    for (driver <- drivers; run <- driver.live; orders <- run.ordersFor(executor.name)) {
      val settled = orders.live.settled
      val standing = orders.standbys.iterator.map(_.worker).toSet
      val left = executor.registry
        .workers(here => !here.keepsUp(settled, setup.behindMax))
        .filter(worker => worker.store.run == driver.id && !standing(worker))
      // What a step on demand takes stays until it has been lent.
      if (left.nonEmpty && orders.live.takenAt.isEmpty)
        throw new Violation(s"executor ${executor.name} keeps old state of $left")
      var useless = Vector.empty[FileName]
      executor.agent.pushed.keep { (store, file) =>
        val here = executor.registry
          .holding(WorkerId(store, file.worker))
          .filterNot(StandbyKeeper.isEmpty)
        val isApplied = here.exists(_.base.version >= file.name.version)
        val behind = if (here.isEmpty) 0 else Footer.PreviousMax
        val isOld = file.name.version + behind < settled
        if (store.run == driver.id && (isApplied || isOld)) useless :+= file
        true
      }
      if (useless.nonEmpty)
        throw new Violation(s"executor ${executor.name} keeps files that nobody needs: $useless")
    }
  }

  /** Once nothing is left to do: no replica, block, or memory of a dead run may remain, nor what
    * was kept for a standby that is wanted no more (P5).
    */
  def checkLeaks(): Unit = {
    var rounds = 0
    while (zombies.nonEmpty && rounds < 10000) { haunt(); rounds += 1 }
    executors.foreach(mail.report)
    mail.deliverAll()
    executors.foreach { e =>
      var replicas = Vector.empty[ReplicaKey]
      e.registry.keepReplicas { k => replicas :+= k; true }
      if (replicas.nonEmpty)
        throw new Violation(s"executor ${e.name} keeps replicas that no duty names: $replicas")
      if (e.publishedCount > 0 || e.agent.publisher.isBehind || e.registry.exports.count > 0)
        throw new Violation(s"executor ${e.name} keeps blocks or exports of steps that are over")
      if (mustEmpty && drains.open(e.name) && e.registry.holdingsCount > 0)
        throw new Violation(s"executor ${e.name} keeps state, and is to be emptied")
      if (!e.registry.runs.forall(isLive))
        throw new Violation(
          s"executor ${e.name} keeps memory of dead runs: ${e.registry.runs}"
        )
    }
    executors.foreach(checkKept(_)) // last, for it brings the newest orders once more
    drivers.foreach(_.die("stopped by the user at the end"))
    while (zombies.nonEmpty && rounds < 20000) { haunt(); rounds += 1 }
    executors.foreach(mail.report)
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
