// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.runtime.Held

/** A row of the table `executors`. */
final case class ExecutorRow(executor: String, workers: Int, replicas: Int, blocks: Int)

object ExecutorRow {
  val table: Table[ExecutorRow] = Table(
    "executors",
    "A row for each executor that has reported: what it keeps for all queries.",
    Vector(
      Column.of("executor", Text, "Id of the executor.", _.executor),
      Column.of("workers", Int32, "Number of workers whose state it keeps.", _.workers),
      Column
        .of("replicas", Int32, "Number of replicas that it has prepared for steps.", _.replicas),
      Column.of("blocks", Int32, "Number of blocks that it publishes for others.", _.blocks)
    )
  )

  /** The rows of an application, from what each executor reported last. */
  def of(held: Vector[(String, Held)]): Vector[ExecutorRow] =
    held.map { case (executor, h) => ExecutorRow(executor, h.workers, h.replicas, h.blocks) }
}
