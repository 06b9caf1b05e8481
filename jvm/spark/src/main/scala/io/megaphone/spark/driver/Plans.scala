// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.UUID

import io.megaphone.checkpoint.planlog.History
import io.megaphone.errors.{InvalidPlanException, PlanRefusedException}
import io.megaphone.plan.{
  Group, Move, Plan, Planner, RoutingTable, Step, Strategies, Strategy, TransferMode
}
import io.megaphone.protocol.Protocol
import io.megaphone.spark.conf.{MegaphoneConf, PlacementConf}

/** The options that all verbs which make plans share.
  *
  * @param strategy
  *   how moves are grouped into steps; None for the configured one
  * @param mode
  *   when the bytes travel; None for the configured one
  * @param operator
  *   a stateful operator; only its group moves. None for all groups that can move
  */
final case class PlanOptions(
    strategy: Option[Strategy] = None,
    mode: Option[TransferMode] = None,
    operator: Option[Long] = None
)

/** A step made by hand.
  *
  * @param workers
  *   number of workers after it; None for as many as before it
  */
final case class StepByHand(moves: Vector[Move], workers: Option[Int])

/** Makes plans for a running query. What a verb returns makes the plan from the query's state:
  * `QueryDriver.submit` does so and writes it to the plan log; who only wants to see it gives it a
  * snapshot.
  *
  * Threads: any. Both the verb and what it returns may throw PlanRefusedException,
  * InvalidPlanException or InvalidConfException, after which nothing has changed.
  */
object Plans {

  /** Makes a plan from the state of a query. */
  type Made = Protocol.State => Plan

  /** The strategy of a plan whose steps were made by hand and not cut. */
  val AsGiven = "as given"

  /** Spreads the bins evenly over a number of workers, with the fewest moves. */
  def rescale(query: QueryDriver, workers: Int, options: PlanOptions): Made =
    inSteps(query, options) { table =>
      Planner.checkGrowth(table, workers)
      Planner.rescale(table, workers)
    }

  /** Moves bins to workers that exist. */
  def move(query: QueryDriver, moves: Vector[Move], options: PlanOptions): Made =
    inSteps(query, options)(Planner.move(_, moves))

  /** Has steps made by hand, in their order. A strategy cuts each of them; without one they stay as
    * they are. Steps that change nothing are left out.
    */
  def submit(query: QueryDriver, steps: Vector[StepByHand], options: PlanOptions): Made = {
    if (steps.isEmpty || steps.exists(s => s.moves.isEmpty && s.workers.isEmpty))
      throw new InvalidPlanException.EmptyPlan
    make(query, options, options.strategy.fold(AsGiven)(_.toString)) { first =>
      val (_, made) = steps.foldLeft((first, Vector.empty[Step])) { case ((table, before), asked) =>
        val step = Step(asked.moves, asked.workers.getOrElse(table.workers))
        Planner.checkGrowth(table, step.workers)
        val after = table.moved(step.moves, table.number, step.workers)
        val changes = after.workers != table.workers || table.movesTo(after).nonEmpty
        def cut = options.strategy.fold(Vector(step))(Strategies.steps(table, step, _))
        (after, if (changes) before ++ cut else before)
      }
      made
    }
  }

  /** A plan of a query. */
  def find(state: Protocol.State, planId: String): Plan =
    state.history.plan(planId).getOrElse(throw PlanRefusedException.unknownPlan(planId))

  private def inSteps(query: QueryDriver, options: PlanOptions)(
      change: RoutingTable => Step
  ): Made = {
    val strategy = options.strategy.getOrElse(MegaphoneConf.DefaultStrategy.read(query.conf))
    make(query, options, strategy.toString)(t => Strategies.steps(t, change(t), strategy))
  }

  private def make(query: QueryDriver, options: PlanOptions, strategy: String)(
      stepsFrom: RoutingTable => Vector[Step]
  ): Made = state => {
    val steps = groupsOf(state, options.operator)
      .map(g => g.id -> stepsFrom(tableOf(state, g)))
      .filter(_._2.nonEmpty)
      .toMap
    if (steps.isEmpty) throw PlanRefusedException.nothingToDo
    val mode = options.mode.getOrElse(MegaphoneConf.Mode.read(query.conf))
    if (mode.needsStandbys && PlacementConf.Replicas.read(query.conf) == 0)
      throw PlanRefusedException.noReplicas(mode.name)
    Plan(newId(state.history), steps, strategy, mode)
  }

  /** An id that no plan has that the plan log knows: its steps are sealed by it.
    *
    * @param drawn
    *   ids by chance, one after the other
    */
  private[driver] def newId(
      history: History,
      drawn: Iterator[String] = Iterator.continually(UUID.randomUUID().toString.take(8))
  ): String = drawn.dropWhile(history.plan(_).nonEmpty).next()

  /** The table that a new plan starts from: no other plan of the group may be open. */
  private def tableOf(state: Protocol.State, group: Group): RoutingTable = {
    state.history.open
      .find(_.steps.contains(group.id))
      .foreach(p => throw PlanRefusedException.overlapping(p.id, "concerns the same bins"))
    state.currentTable(group.id)
  }

  /** The group of an operator. */
  private[driver] def groupOf(state: Protocol.State, operator: Long): Group =
    state.groups.find(_.operators.exists(_.id == operator)).getOrElse {
      val known = state.groups.flatMap(_.operators.map(_.id))
      throw PlanRefusedException.unknownOperator(operator, known)
    }

  private def groupsOf(state: Protocol.State, operator: Option[Long]): Vector[Group] =
    operator match {
      case None =>
        val movable = state.groups.filter(_.isMovable)
        if (movable.isEmpty) throw PlanRefusedException.notMovable(state.groups.head.id)
        movable
      case Some(id) =>
        val group = groupOf(state, id)
        if (!group.isMovable) throw PlanRefusedException.notMovable(id)
        Vector(group)
    }
}
