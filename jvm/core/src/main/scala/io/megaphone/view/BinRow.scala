// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.protocol.Protocol

/** A row of the table `bins`. */
final case class BinRow(operator: Long, bin: Int, worker: Int, executor: Option[String])

object BinRow {
  val table: Table[BinRow] = Table(
    "bins",
    "A row for each bin of each group of operators.",
    Vector(
      Column.ofGroup(_.operator),
      Column.of("bin", Int32, "Number of the bin, from 0.", _.bin),
      Column.of("worker", Int32, "The worker that owns it.", _.worker),
      Column.optional(
        "executor",
        Text,
        "Id of the executor that the worker ran on last.",
        _.executor
      )
    )
  )

  /** The rows of a query.
    *
    * @param executorOf
    *   where a worker of an operator ran last
    */
  def of(state: Protocol.State, executorOf: (Long, Int) => Option[String]): Vector[BinRow] = for {
    group <- state.groups
    routing = state.currentTable(group.id)
    executors = Vector.tabulate(routing.workers)(executorOf(group.id, _))
    bin <- 0 until routing.bins
    worker = routing.workerOf(bin)
  } yield BinRow(group.id, bin, worker, executors(worker))
}
