// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.format.WorkerId
import io.megaphone.plan.Group
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.Committed

/** A row of the table `workers`. */
final case class WorkerRow(
    operator: Long,
    worker: Int,
    executor: Option[String],
    bins: Int,
    keys: Long,
    bytes: Long,
    lastBatch: Option[Long],
    standbys: Int,
    busyMs: Long,
    binsIncomplete: Int,
    bytesToCome: Long
)

object WorkerRow {
  val table: Table[WorkerRow] = Table(
    "workers",
    "A row for each worker of each group of operators.",
    Vector(
      Column.ofGroup(_.operator),
      Column.of("worker", Int32, "Number of the worker, from 0.", _.worker),
      Column.optional("executor", Text, "Id of the executor that it ran on last.", _.executor),
      Column.of("bins", Int32, "Number of bins that it owns.", _.bins),
      Column.of("keys", Int64, "Number of live keys in all its stores of the group.", _.keys),
      Column.of(
        "bytes",
        Int64,
        "Bytes of the live records in them, as they are in memory, without indexes.",
        _.bytes
      ),
      Column.optional("last_batch", Int64, "The batch that it committed last.", _.lastBatch),
      Column.of(
        "standbys",
        Int32,
        "Number of executors that stand by for it with all of its state: see the option " +
          "`spark.megaphone.replicas`.",
        _.standbys
      ),
      Column.of(
        "busy_ms",
        Int64,
        "How long its tasks use the state in a batch, in milliseconds: a moving average since it " +
          "runs on its executor.",
        _.busyMs
      ),
      Column.of(
        "bins_incomplete",
        Int32,
        "Bins of which something was elsewhere after that batch, as a step on demand leaves " +
          "them; of each store.",
        _.binsIncomplete
      ),
      Column.bytesToCome(_.bytesToCome)
    )
  )

  /** The rows of a query.
    *
    * @param executorOf
    *   where a worker of an operator ran last
    * @param newest
    *   the newest commit of each worker
    * @param standbysOf
    *   how many standbys with all bins a worker of a group has
    * @param busyMsOf
    *   how long the tasks of a worker of a group use the state in a batch
    */
  def of(
      state: Protocol.State,
      executorOf: (Long, Int) => Option[String],
      newest: Map[WorkerId, Committed],
      standbysOf: (Group, Int) => Int = (_, _) => 0,
      busyMsOf: (Group, Int) => Double = (_, _) => 0
  ): Vector[WorkerRow] = {
    val commitsOf = newest.values.toVector.groupBy(c => c.worker.store.id -> c.worker.worker)
    for {
      group <- state.groups
      routing = state.currentTable(group.id)
      (bins, worker) <- routing.binCounts.toVector.zipWithIndex
    } yield {
      val commits = group.stores.flatMap(s => commitsOf.getOrElse(s -> worker, Vector.empty))
      WorkerRow(
        group.id,
        worker,
        executorOf(group.id, worker),
        bins,
        keys = commits.map(_.keys).sum,
        bytes = commits.map(_.liveBytes).sum,
        lastBatch = commits.map(_.batch).maxOption,
        standbys = standbysOf(group, worker),
        busyMs = math.round(busyMsOf(group, worker)),
        binsIncomplete = commits.map(_.binsIncomplete).sum,
        bytesToCome = commits.map(_.bytesElsewhere).sum
      )
    }
  }
}
