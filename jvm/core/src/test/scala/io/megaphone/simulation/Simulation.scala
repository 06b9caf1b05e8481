// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable
import scala.util.control.NonFatal

/** One schedule: a query, its executors, its user and what goes wrong, all of it decided by the
  * seed, on one thread.
  *
  *   1. At each tick something does one step: a driver, a background thread, a zombie, the user, a
  *      fault.
  *   1. What the real code under `log`, `format`, `store` and `protocol` makes of it is compared
  *      with an oracle at every opening of a store: every bin of every operator in every batch.
  *   1. When enough batches are committed the faults stop; every open plan must then end within a
  *      bound of batches, executors that are to be emptied are, nothing may be left in memory, and
  *      every retained version must be readable.
  */
final class Simulation(seed: Long, bug: Option[Bug] = None, isTraced: Boolean = false) {
  private val dice = new Dice(Dice.mix(seed))
  private val trace = new Trace(isTraced)
  private val setup = {
    val made = Setup.of(dice)
    bug.fold(made)(_.narrowed(made))
  }
  private val world = new World(setup, dice, trace, bug)
  private val user = new User(world)
  private var isRefused = false

  /** Runs the schedule; what was wrong, if anything was. */
  def run(): Simulation.Outcome = {
    trace(s"seed $seed: $setup")
    val failure =
      try { go(); None }
      catch {
        case refused: Refused =>
          trace(s"the query is refused: ${refused.getCause}"); isRefused = true; None
        case NonFatal(e) => Some(e)
      }
    failure.foreach(e => trace(s"VIOLATION ${e.getMessage}"))
    val counts = world.counts.copy(
      schedules = 1,
      faults = world.faults.struck,
      deleted = world.checkpoint.files.valuesIterator.map(_.sweptCount.toLong).sum,
      trimmed = world.checkpoint.planLog.deleted,
      refused = if (isRefused) 1 else 0
    )
    Simulation.Outcome(seed, failure, trace, counts)
  }

  private def go(): Unit = {
    var ticks = 0
    while (world.counts.batches < setup.batches && ticks < Simulation.TicksMax) {
      tick()
      check()
      ticks += 1
    }
    if (world.counts.batches < setup.batches)
      throw new Violation(
        s"only ${world.counts.batches} of ${setup.batches} batches after $ticks ticks"
      )
    settle()
  }

  private def tick(): Unit = {
    val roll = dice.below(1000)
    if (roll < 640) world.stepDriver()
    else if (roll < 820) world.work()
    else if (roll < 890) world.haunt()
    else if (roll < 920) world.mail.report(dice.pick(world.executors))
    else if (roll < 940) world.mail.deliverLate()
    else if (roll < 946) running.foreach(user.act)
    else if (roll < 948) read()
    else if (roll < 970) disturb()
    else world.drivers.filter(d => d.isPaused && !d.isDead).foreach(_.tasks.goOn())
  }

  /** Throws what was wrong at a place whose exceptions the code under test has caught. */
  private def check(): Unit = world.violation.foreach(throw _)

  private def running: Option[Driver] = world.drivers.find(_.isReady)

  private def disturb(): Unit = {
    if (world.faults.strikes(Fault.ExecutorDies))
      world.lose(dice.pick(world.executors), isCutOff = false)
    if (world.faults.strikes(Fault.ExecutorCutOff))
      world.lose(dice.pick(world.executors), isCutOff = true)
    if (world.executors.size < 6 && world.faults.strikes(Fault.ExecutorJoins))
      for (_ <- 1 to dice.between(1, 2)) world.join()
    if (world.faults.strikes(Fault.ExecutorDecommissioned)) world.decommission()
    if (dice.chance(0.2)) world.endLeaving()
    if (world.faults.strikes(Fault.ExecutorExcluded)) world.exclude()
    if (dice.chance(0.1)) world.include()
    world.endings.byUser()
    world.endings.byProduct()
    if (world.faults.isFree) {
      // No faults of the query's own: it knows how to go on without a pause.
      world.loseQuietly()
      if (world.executors.size < 6 && dice.chance(0.05)) world.join()
    }
    if (world.faults.strikes(Fault.GoesBack, world.canGoBack)) world.goBack()
    val hasRecords = world.checkpoint.planLog.numbers().size > 1
    if (world.faults.strikes(Fault.PlanLogFromEarlier, hasRecords)) world.restoreEarlierPlanLog()
    world.drivers.filter(_.isPaused).foreach { d =>
      if (dice.chance(0.2)) world.wake(d)
    }
  }

  private def read(): Unit = {
    val newest = world.oracle.settled
    val oldest = math.max(1, world.oracle.oldest)
    if (newest >= 1) Reader.check(world, oldest + dice.below((newest - oldest).toInt + 1))
  }

  private val drainingSince = mutable.HashMap.empty[Executor, Long] // the number of batches

  /** An executor is empty after a bounded number of batches of one driver, if others have room. */
  private def checkDrains(undrained: Vector[Executor]): Unit = {
    val batches = world.counts.batches
    val isAlone = world.drivers.count(!_.isDead) == 1 && world.drivers.exists(_.isReady)
    drainingSince.filterInPlace((executor, _) => isAlone && undrained.contains(executor))
    if (isAlone) for (executor <- undrained) {
      val took = batches - drainingSince.getOrElseUpdate(executor, batches)
      world.counts = world.counts.copy(longestDrain = math.max(took, world.counts.longestDrain))
      if (took > Simulation.DrainMax)
        throw new Violation(
          s"${executor.name} is not empty after $took batches without a fault: " +
            world.drains.get(executor.name, world.has) +
            world.drivers.map(_.status.moving).mkString
        )
    }
  }

  /** Faults are over: plans end, memory is given back, all that is retained can be read. */
  private def settle(): Unit = {
    trace("faults stop")
    world.faults.quiet = true
    world.includeAll()
    world.drivers.foreach { d =>
      if (d.isPaused) if (dice.chance(0.5)) world.wake(d) else d.die("never woke up")
    }
    val patience = setup.settings.patienceBatches + setup.settings.gapBatches + 2
    // Number of batches, from when one driver is left; some for each step that it then has, and
    // some more each time that copies progress, which they may not do for ever.
    var bound = Long.MaxValue
    var progressAt = -1L
    var progress = 0
    // Nor do batches count while bins arrive: the dice may leave out those who bring the rest.
    var arrivingAt = -1L
    var arriving = 0
    // The executors that are not empty yet, by this number of batches.
    var undrained = Vector.empty[Executor]
    var seenAt = -1L
    // The driver whose plans are over, and the number of batches since when.
    var over = Option.empty[(Driver, Long)]
    var ticks = 0
    while (!over.exists { case (_, since) => world.counts.batches >= since + 3 }) {
      val roll = dice.below(100)
      if (roll < 60) world.stepDriver()
      else if (roll < 90) world.work()
      else if (roll < 96) world.haunt()
      else if (roll < 97) world.mail.deliverLate()
      else world.mail.report(dice.pick(world.executors))
      check()
      ticks += 1
      if (world.counts.batches != seenAt) {
        seenAt = world.counts.batches
        world.relieve()
        world.endings.byProduct()
        undrained = world.undrained
        checkDrains(undrained)
        // The dice may leave out those on whom a drain waits; a batch is long for who copies.
        if (undrained.nonEmpty) world.executors.toVector.foreach { executor =>
          for (_ <- 1 to Simulation.WorksOfBatch) {
            executor.work()
            world.mail.report(executor)
          }
        }
      }
      // It did not know what another had written, or where a worker had run.
      over = over.filterNot { case (driver, _) =>
        driver.isDead || driver.status.isRelocating || driver.status.isArriving ||
        undrained.nonEmpty
      }
      if (over.isEmpty) world.drivers.filterNot(_.isDead).toVector match {
        case Vector(driver) if driver.isReady && driver.isCurrent =>
          if (bound == Long.MaxValue)
            bound = world.counts.batches + 4 + patience * driver.status.stepsLeft
          if (driver.state.progressAt != progressAt && progress < Simulation.ProgressMax) {
            progressAt = driver.state.progressAt
            progress += 1
            bound += patience
          }
          val batches = world.counts.batches
          if (
            driver.status.isArriving && batches != arrivingAt && arriving < Simulation.ArrivingMax
          ) {
            arrivingAt = batches
            arriving += 1
            bound += 1
          }
          if (
            driver.openPlans.isEmpty && !driver.status.isRelocating &&
            !driver.status.isArriving && undrained.isEmpty
          ) over = Some(driver -> world.counts.batches)
          else if (driver.openPlans.nonEmpty && world.counts.batches > bound)
            throw new Violation(
              s"plans are still open after many batches without a fault: ${driver.openPlans}"
            )
        case _ => bound = Long.MaxValue
      }
      if (ticks > Simulation.TicksMax)
        throw new Violation(
          s"the query stands still: batch ${world.oracle.settled} after $ticks ticks without " +
            s"faults; ${world.drivers.map(_.status.moving).mkString}"
        )
    }
    world.checkLeaks()
    val newest = world.oracle.settled
    for (version <- math.max(1, world.oracle.oldest) to newest) Reader.check(world, version)
  }
}

object Simulation {
  private val TicksMax = 200000
  private val ProgressMax = 50
  private val ArrivingMax = 200

  /** How often an executor works in the background while a batch runs, and asks for orders. */
  private val WorksOfBatch = 5

  /** Batches after which an executor is empty. A standby that has given way rests for 300 works of
    * its executor. An executor that has had no room is not asked again for 50 batches. The others
    * are for steps that go first, and for workers that leave one after the other.
    */
  private val DrainMax = 300 / WorksOfBatch + 50 + 40

  final case class Outcome(seed: Long, failure: Option[Throwable], trace: Trace, counts: Counts)
}
