// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.{ExecutorAddress, StoreId, WorkerId}

/** The same, whose workers are on two executors of several. */
trait PlacedRun extends SmallRun {
  protected def standing(worker: Int, version: Long, isWhole: Boolean = true, bins: Int = 0) =
    Standing(WorkerId(StoreId(0, "default").in("r"), worker), version, isWhole, bins)

  /** A run whose workers 0 and 1 run on a and b, of so many executors. */
  protected def settledOn(seen: Vector[ExecutorAddress], placement: PlacementSettings) = {
    val q = new Query().start(0, settings = QueryRun.Settings(placement = placement))
    q.plan(0, seen)
    for (worker <- 0 to 1) q.committed(worker, on = worker, liveBytes = 100)
    q
  }

  protected def placesOf(plan: BatchPlan) = plan.decision.batch.executorsOf(0)

  protected def says(q: Query, executor: ExecutorAddress, of: Standing*) =
    q.run.reported(Report(executor, Held(0, 0, 0), standing = of.toVector))

  /** Executors report the standbys that they are asked for: some as they are said to be, and those
    * of worker 1 as good as can be.
    */
  protected def sayStandbys(q: Query, batch: Long)(
      some: PartialFunction[(String, Int), Standing]
  ): Unit = for (executor <- three) {
    val standings = q.run.standbyDutiesOf(executor.id).map(_.worker.worker).flatMap { worker =>
      some
        .lift((executor.id, worker))
        .orElse(Option.when(worker == 1)(standing(1, batch)))
    }
    says(q, executor, standings: _*)
  }
}
