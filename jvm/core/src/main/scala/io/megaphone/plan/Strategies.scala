// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** Cuts what is to change into steps (Megaphone, section 3.3, PVLDB 12(9)).
  *
  * One order of the moves serves all strategies, so that load is spread whatever the size of a
  * step: the rounds of [[Rounds]], one after the other. Optimized takes them as they are, batched
  * and fluid cut their sequence anew.
  */
object Strategies {

  /** The steps of a change, which make each of its moves once and end at the table that it asks
    * for.
    *
    * A step has as many workers as its owners need, but never fewer than both the first and the
    * last table have: a new worker comes with the first step that gives it a bin, an old one goes
    * with the step that takes its last.
    *
    * @param table
    *   what the first step starts from
    * @param change
    *   all moves, and the number of workers after the last; moves to a bin's owner are dropped
    * @return
    *   no step if nothing changes; one without moves if only the number of workers does
    * @throws InvalidPlanException
    *   what [[io.megaphone.routing.RoutingTable.moved]] throws for the change
    */
  def steps(table: RoutingTable, change: Step, strategy: Strategy): Vector[Step] = {
    val moves = table.movesTo(table.moved(change.moves, table.number, change.workers))
    if (moves.isEmpty) Vector(Step(moves, change.workers)).filter(_.workers != table.workers)
    else withWorkers(table, cut(table, moves, strategy), change.workers)
  }

  private def cut(
      table: RoutingTable,
      moves: Vector[Move],
      strategy: Strategy
  ): Vector[Vector[Move]] = {
    def rounds = new Rounds(table, moves).all()
    strategy match {
      case Strategy.AllAtOnce => Vector(moves)
      case Strategy.Fluid => rounds.flatten.map(Vector(_))
      case batched: Strategy.Batched =>
        rounds.flatten.grouped(batched.binsPerStep(moves.length)).toVector
      case Strategy.Optimized => rounds
    }
  }

  private def withWorkers(
      table: RoutingTable,
      groups: Vector[Vector[Move]],
      workersAtEnd: Int
  ): Vector[Step] = {
    val counts = table.binCounts.padTo(workersAtEnd, 0)
    val workersMin = math.min(table.workers, workersAtEnd)
    val steps = groups.map { moves =>
      moves.foreach { move =>
        counts(table.workerOf(move.bin)) -= 1
        counts(move.target) += 1
      }
      Step(moves, math.max(workersMin, counts.lastIndexWhere(_ > 0) + 1))
    }
    steps.init :+ steps.last.copy(workers = workersAtEnd)
  }
}
