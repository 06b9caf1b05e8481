// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.placement.Seat
import io.megaphone.plan.{Move, Plan, Planner, Step, Strategies, Strategy, TransferMode}

/** Submits and cancels plans, as a user would: any strategy, any mode; never two open plans for one
  * group. Has workers taken elsewhere and executors emptied.
  */
final class User(world: World) {
  private val setup = world.setup
  private val dice = world.dice

  def act(driver: Driver): Unit = {
    if (setup.isElastic && dice.chance(0.5)) place(driver)
    val open = driver.openPlans
    if (open.nonEmpty && dice.chance(0.15)) {
      val id = dice.pick(open)
      world.trace(s"the user cancels $id")
      driver.cancel(id)
    } else submit(driver)
  }

  /** Empties an executor, spreads the load, or takes workers elsewhere. */
  private def place(driver: Driver): Unit = dice.below(7) match {
    case 0 | 1 => world.drain()
    case 2 => world.undrain()
    case 3 => driver.spread()
    case 4 => driver.cancelRelocations()
    case 5 => if (!world.faults.isFree && dice.chance(0.5)) world.hurry()
    case _ =>
      val seats = for {
        group <- setup.groups
        worker <- 0 until driver.state.currentTable(group.id).workers
        if dice.chance(0.5)
      } yield Seat(group.id, worker) -> dice.pick(world.executors).name
      driver.relocate(seats.toMap)
  }

  private def submit(driver: Driver): Unit = {
    val taken = driver.state.history.open.flatMap(_.steps.keys).toSet
    val free = setup.groups.map(_.id).filterNot(taken)
    val chosen = if (dice.chance(0.5)) free else dice.shuffle(free).take(1)
    val strategy = dice.pick(User.Strategies)
    val steps = chosen.map(g => g -> stepsFor(driver, g, strategy)).filter(_._2.nonEmpty).toMap
    if (steps.nonEmpty) {
      val mode =
        if (dice.chance(setup.onDemandShare)) TransferMode.OnDemand
        else if (dice.chance(0.35)) TransferMode.Direct
        else if (dice.chance(0.2)) TransferMode.Replicated
        else TransferMode.Prepared
      val plan = Plan(s"p${world.nextNumber()}", steps, strategy.toString, mode)
      world.trace(s"the user submits $plan")
      driver.submit(plan)
    }
  }

  private def stepsFor(driver: Driver, group: Long, strategy: Strategy): Vector[Step] = {
    val table = driver.state.history.tableAt(group, Long.MaxValue)
    val change = dice.below(4) match {
      case 0 =>
        Planner.move(
          table,
          Vector
            .tabulate(setup.bins)(identity)
            .filter(_ => dice.chance(0.3))
            .map(b => Move(b, dice.below(table.workers))) :+ Move(
            0,
            dice.below(table.workers)
          ) distinctBy (_.bin)
        )
      case 1 if table.workers > 1 => Planner.evacuate(table, Set(dice.below(table.workers)))
      case _ => Planner.rescale(table, dice.between(1, setup.workersMax))
    }
    val steps = Strategies.steps(table, change, strategy)
    if (steps.size <= User.StepsMax) steps else Strategies.steps(table, change, Strategy.AllAtOnce)
  }
}

object User {
  private val Strategies = Vector(
    Strategy.AllAtOnce,
    Strategy.Fluid,
    Strategy.Batched(),
    Strategy.Batched(3),
    Strategy.Optimized
  )
  private val StepsMax = 6
}
