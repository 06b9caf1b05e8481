// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.format.ExecutorAddress
import io.megaphone.runtime.Held

/** A row of the table `executors`. */
final case class ExecutorRow(
    executor: String,
    host: String,
    workers: Int,
    replicas: Int,
    blocks: Int,
    bytes: Long,
    bytesOnDisk: Long,
    budget: Long
)

object ExecutorRow {
  val table: Table[ExecutorRow] = Table(
    "executors",
    "A row for each executor that has reported: what it keeps for all queries.",
    Vector(
      Column.of("executor", Text, "Id of the executor.", _.executor),
      Column.of("host", Text, "The machine that it runs on.", _.host),
      Column.of(
        "workers",
        Int32,
        "Number of workers whose state it keeps, as their executor or as a standby.",
        _.workers
      ),
      Column
        .of("replicas", Int32, "Number of replicas that it has prepared for steps.", _.replicas),
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

  /** The rows of an application, from what each executor reported last. */
  def of(held: Vector[(ExecutorAddress, Held)]): Vector[ExecutorRow] =
    held.map { case (executor, h) =>
      ExecutorRow(
        executor.id,
        executor.host,
        h.workers,
        h.replicas,
        h.blocks,
        h.bytes,
        h.bytesOnDisk,
        h.budgetBytes
      )
    }
}
