// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** Cuts a change into steps (Megaphone, section 3.3, PVLDB 12(9)).
  *
  * All strategies use one order of the moves, the rounds of [[Rounds]], so the load is spread at
  * any size of a step. Optimized makes each round a step. Batched and fluid cut the same sequence
  * of moves into steps of their own size.
  */
object Strategies {

  /** The steps of a change. Together they make each of its moves once.
    *
    * A step has the number of workers that its owners need, but at least the smaller number of the
    * first and the last table. So a new worker is added with the first step that moves a bin to it,
    * and an old worker is removed with the step that moves its last bin away.
    *
    * @param table
    *   the table that the first step starts from
    * @param change
    *   all moves, and the number of workers after the last step; moves to a bin's owner are dropped
    * @return
    *   no step if nothing changes; one step without moves if only the number of workers changes
    * @throws InvalidPlanException
    *   as [[RoutingTable.moved]] throws it for the change
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
