// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import scala.collection.mutable

import io.megaphone.plan.{RoutingTable, Step}

/** What a step has executors send and take. */
private[megaphone] object StepBytes {

  /** The bytes that each executor sends and takes, about: those of bins that change executor count
    * at both ends. Workers that are not placed count as if they were on one executor, so that all
    * that they get and give counts. Costs as much as there are moves and workers.
    *
    * @param table
    *   where the bins are before the step
    * @param counts
    *   how many bins each worker had when its bytes were counted
    */
  def byExecutor(
      batch: Protocol.Batch,
      group: Long,
      step: Step,
      table: RoutingTable,
      counts: Array[Int]
  ): Map[String, Double] = {
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
    val byExecutor = mutable.Map.empty[String, Double].withDefaultValue(0)
    ends.indices.foreach(worker => byExecutor(executorOf(worker)) += ends(worker))
    byExecutor.toMap
  }

  private val Unplaced = ""
}
