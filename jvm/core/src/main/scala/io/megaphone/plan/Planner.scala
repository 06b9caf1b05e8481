// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import scala.collection.mutable

import io.megaphone.errors.InvalidPlanException

/** Finds the moves that lead where the user wants to go, as one step; [[Strategies]] cuts it into
  * smaller ones.
  *
  * Sticky: a bin that can stay stays. Deterministic: equal tables give equal moves.
  */
object Planner {

  /** Spreads all bins over a number of workers so that no two differ by more than one bin, with the
    * fewest moves.
    *
    * Let `q = bins / workers` and `r = bins mod workers`. Balance means that `r` workers own
    * `q + 1` bins and the others `q`. Of the `c` bins that worker `w` owns before, at most `q` can
    * stay, or `q + 1` on `r` workers; none stays on a worker that goes. So over the workers that
    * remain at most
    *
    * {{{kept = sum of min(c(w), q) + min(r, number of w with c(w) > q)}}}
    *
    * bins stay, and `bins - kept` moves are the minimum for any table. 128 bins go from 25 workers
    * to 30 with 20 moves. With the present number of workers it rebalances.
    *
    * @throws InvalidPlanException
    *   INVALID_WORKERS
    */
  def rescale(table: RoutingTable, workers: Int): Step = {
    RoutingTable.checkWorkers(workers)
    val kept =
      table.binCounts.padTo(workers, 0) // lowered while what is above the goal is taken away
    val goals = balancedGoals(kept.take(workers), table.bins).padTo(kept.length, 0)
    val surplus = (table.bins - 1 to 0 by -1).filter { bin =>
      val owner = table.workerOf(bin)
      val leaves = kept(owner) > goals(owner)
      if (leaves) kept(owner) -= 1
      leaves
    }
    val places =
      goals.indices.iterator.flatMap(worker => Iterator.fill(goals(worker) - kept(worker))(worker))
    /* Sender by sender to receiver by receiver: few pairs of workers exchange bins, and each pair
     * is one transfer. */
    val moves = surplus.sortBy(bin => (table.workerOf(bin), bin)).iterator.zip(places).map {
      case (bin, worker) =>
        Move(bin, worker)
    }
    Step(moves.toVector, workers)
  }

  /** Refuses to add workers that would be idle, because there are no bins for them.
    *
    * A query may begin with more workers than bins, for Spark's number of shuffle partitions is its
    * first number of workers. Such a table can keep or lower their number.
    *
    * @throws InvalidPlanException
    *   INVALID_WORKERS
    */
  def checkGrowth(table: RoutingTable, workers: Int): Unit =
    if (workers > math.max(table.bins, table.workers))
      throw new InvalidPlanException.MoreWorkersThanBins(workers, table.bins)

  /** Empties some workers and spreads their bins over the others, each to the one that owns the
    * fewest. The number of workers stays, and so does every other bin.
    *
    * @throws InvalidPlanException
    *   UNKNOWN_WORKER, EMPTY_PLAN if no worker is named, NO_WORKERS_LEFT if all are
    */
  def evacuate(table: RoutingTable, from: Set[Int]): Step = {
    from.foreach(RoutingTable.checkWorker(_, table.workers))
    if (from.isEmpty) throw new InvalidPlanException.EmptyPlan
    if (from.size == table.workers) throw new InvalidPlanException.NoWorkersLeft(table.workers)

    val counts = table.binCounts
    val fewestFirst = Ordering.by[Int, (Int, Int)](worker => (counts(worker), worker)).reverse
    val receivers = mutable.PriorityQueue.from(counts.indices.filterNot(from))(fewestFirst)
    val moves = (0 until table.bins).filter(bin => from(table.workerOf(bin))).map { bin =>
      val target = receivers.dequeue()
      counts(target) += 1
      receivers.enqueue(target)
      Move(bin, target)
    }
    Step(moves.toVector, table.workers)
  }

  /** Moves chosen by the user, checked. A move to the bin's owner is dropped; if all are, the step
    * has no moves.
    *
    * @param moves
    *   each bin at most once; the order is kept
    * @throws InvalidPlanException
    *   EMPTY_PLAN, UNKNOWN_BIN, UNKNOWN_WORKER or DUPLICATE_BIN
    */
  def move(table: RoutingTable, moves: Seq[Move]): Step = {
    if (moves.isEmpty) throw new InvalidPlanException.EmptyPlan
    table.moved(moves, table.number, table.workers)
    Step(moves.filter(move => table.workerOf(move.bin) != move.target).toVector, table.workers)
  }

  /** How many bins each worker should own: the larger shares go where they save a move, then to the
    * lowest workers.
    */
  private def balancedGoals(counts: Array[Int], bins: Int): Array[Int] = {
    val share = bins / counts.length
    val goals = Array.fill(counts.length)(share)
    val (savesMove, others) = counts.indices.partition(counts(_) > share)
    (savesMove ++ others).take(bins % counts.length).foreach(worker => goals(worker) += 1)
    goals
  }
}
