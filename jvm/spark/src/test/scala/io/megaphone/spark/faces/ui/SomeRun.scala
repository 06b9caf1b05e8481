// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.util.Random

import io.megaphone.spark.faces.history._

/** Facts of made up runs. */
private[faces] object SomeRun {

  /** A group whose bins are spread at random; executors are `1`, `2` and `3`. */
  def group(bins: Int, workers: Int, seed: Int = 1): GroupFacts = {
    val random = new Random(seed)
    val workerOf = Vector.fill(bins)(random.nextInt(workers))
    val sizes =
      Vector.fill(bins)(Option.when(random.nextInt(10) > 0)(random.nextInt(1 << 22).toLong))
    val (moving, arrived) =
      (0 until bins).filter(_ => random.nextInt(20) == 0).partition(_ % 2 == 0)
    GroupFacts(
      0,
      "stateStoreSave",
      Some(41),
      workerOf,
      Measure.all.map(m => m -> sizes.map(_.map(_ / (1 + Measure.all.indexOf(m))))).toMap,
      moving.map(bin => bin -> (workerOf(bin) + 1) % workers).toMap,
      arrived.toSet,
      Vector.tabulate(workers) { worker =>
        val own = (0 until bins).filter(workerOf(_) == worker)
        val bytes = own.flatMap(sizes(_)).sum
        WorkerFacts(worker, Some(s"${worker % 3 + 1}"), own.size, bytes / 90, bytes)
      }
    )
  }

  def plan(
      id: String,
      status: String = "done",
      batches: Vector[Long] = Vector(10, 11, 12),
      seenAt: Option[Long] = Some(9)
  ): PlanFacts = PlanFacts(
    id,
    status,
    reason = None,
    strategy = "batched",
    mode = "prepared",
    steps = 3,
    stepsDone = batches.size,
    moves = 96,
    movesDone = 32 * batches.size,
    batchesLeft = if (status == "running") 3 - batches.size else 0,
    batches,
    workersBefore = Vector(4),
    workersAfter = Vector(8),
    seenAt
  )

  def batches(numbers: Range): Vector[BatchFacts] =
    numbers.map(n => BatchFacts(n.toLong, 200L + n % 7, 50000)).toVector

  def run(group: GroupFacts, plans: Vector[PlanFacts] = Vector(plan("5e2c91aa"))): RunFacts =
    RunFacts(
      QueryFacts("run-1", "query-1", Some("orders"), None, 1000),
      end = None,
      Vector(group),
      plans,
      Vector(StepFacts("5e2c91aa", 0, 0, 10, 32, 1, 1 << 20, 2 << 20, 17)),
      Vector(RecoveryFacts(3, 2, 5 << 20, 90)),
      batches(0 to 40),
      Vector(ExecutorFacts("1", "host-1", 1, 2, 3 << 20, 4 << 20, 10 << 20)),
      demands = Vector(DemandFacts(11, 1234, 45))
    )
}
