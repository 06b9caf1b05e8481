// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import io.megaphone.plan.{RoutingTable, Step}

/** What steps have executors send and take, about: the bytes of bins that change executor count at
  * both ends. Workers that are not placed count as if they were on one executor. Costs as much as
  * there are moves and workers.
  */
private[megaphone] object StepBytes {

  /** The bytes at the executor that has most to do for all of these steps together.
    *
    * @param known
    *   by group: the tables under which the workers' bytes were counted
    * @param tables
    *   by group: where bins are before the steps
    */
  def atBusiest(
      batch: Protocol.Batch,
      steps: Vector[Announced],
      known: Map[Long, RoutingTable],
      tables: Map[Long, RoutingTable]
  ): Long = {
    val ends = steps.flatMap { a =>
      val group = a.id.group
      byExecutor(batch, group, a.step, tables(group), known(group).binCounts)
    }
    ends.groupMapReduce(_._1)(_._2)(_ + _).values.maxOption.getOrElse(0.0).toLong
  }

  private def byExecutor(
      batch: Protocol.Batch,
      group: Long,
      step: Step,
      table: RoutingTable,
      counts: Array[Int]
  ): Vector[(String, Double)] = {
    val workers = math.max(table.workers, step.workers)
    val executors = batch.executorsOf(group)
    val executorOf =
      Array.tabulate(workers)(w => if (w < executors.size) executors(w) else Unplaced)
    val bytesOfBin =
      Array.tabulate(table.workers)(batch.bytesOfBin(group, _, counts).getOrElse(0.0))
    val ends = new Array[Double](workers) // bytes, by worker
    step.moves.foreach { move =>
      val source = table.workerOf(move.bin)
      val from = executorOf(source)
      if (from != executorOf(move.target) || from == Unplaced) { // else it is not copied
        ends(source) += bytesOfBin(source)
        ends(move.target) += bytesOfBin(source)
      }
    }
    executorOf.toVector.zip(ends)
  }

  private val Unplaced = ""
}
