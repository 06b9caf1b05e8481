// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.placement.{Load, Member}
import io.megaphone.runtime.Held

/** A row of the table `executors`. */
final case class ExecutorRow(
    executor: String,
    host: String,
    state: String,
    cores: Int,
    placed: Int,
    liveBytes: Long,
    busyMs: Long,
    workers: Int,
    standbys: Int,
    replicas: Int,
    blocks: Int,
    bytes: Long,
    bytesOnDisk: Long,
    budget: Long
)

object ExecutorRow {
  val table: Table[ExecutorRow] = Table(
    "executors",
    "A row for each executor that has reported: what it runs and keeps for all queries.",
    Vector(
      Column.of("executor", Text, "Id of the executor.", _.executor),
      Column.of("host", Text, "The machine that it runs on.", _.host),
      Column.of(
        "state",
        Text,
        "Whether it is `active`, and may get workers; `draining`: it is to be emptied; or " +
          "`leaving`: it gets no more tasks, or has no time left.",
        _.state
      ),
      Column.of("cores", Int32, "How many tasks it runs at once.", _.cores),
      Column.of("placed", Int32, "Number of workers that are placed on it.", _.placed),
      Column.of("live_bytes", Int64, "Bytes of the live records of these workers.", _.liveBytes),
      Column.of(
        "busy_ms",
        Int64,
        "How long their tasks use the state in a batch, in milliseconds: the sum over the " +
          "workers of a moving average.",
        _.busyMs
      ),
      Column.of(
        "workers",
        Int32,
        "Number of workers whose state it keeps, as their executor or as a standby.",
        _.workers
      ),
      Column.of(
        "standbys",
        Int32,
        "Number of workers that it stands by for with all of their state.",
        _.standbys
      ),
      Column
        .of(
          "replicas",
          Int32,
          "Number of replicas that it has prepared for steps; standbys do not count.",
          _.replicas
        ),
      Column.of("blocks", Int32, "Number of blocks that it publishes for others.", _.blocks),
      Column.of("bytes", Int64, "Heap that all states and replicas on it take.", _.bytes),
      Column.of(
        "bytes_on_disk",
        Int64,
        "Bytes of them that lie on its local disk, because there was no room in the heap.",
        _.bytesOnDisk
      ),
      Column.of(
        "budget",
        Int64,
        "Heap that they may take: see the option `spark.megaphone.memory.budget`.",
        _.budget
      )
    )
  )

  /** The rows of an application.
    *
    * @param held
    *   what each executor reported last
    * @param placed
    *   the load of the workers that are placed on each executor, by its id
    * @param standbys
    *   how many workers each stands by for with all of their state, by its id
    */
  def of(
      held: Vector[(Member, Held)],
      placed: Map[String, Load],
      standbys: Map[String, Int]
  ): Vector[ExecutorRow] =
    held.map { case (executor, h) =>
      val load = placed.getOrElse(executor.id, Load.Zero)
      ExecutorRow(
        executor.id,
        executor.host,
        executor.state.name,
        executor.cores,
        load.workers,
        load.bytes,
        math.round(load.busyMs),
        h.workers,
        standbys.getOrElse(executor.id, 0),
        h.replicas,
        h.blocks,
        h.bytes,
        h.bytesOnDisk,
        h.budgetBytes
      )
    }
}
