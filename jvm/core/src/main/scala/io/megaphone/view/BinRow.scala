// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.protocol.Protocol
import io.megaphone.runtime.RecentCommits

/** A row of the table `bins`. */
final case class BinRow(
    operator: Long,
    bin: Int,
    worker: Int,
    executor: Option[String],
    keys: Option[Long],
    bytes: Option[Long],
    bytesWritten: Option[Long],
    accesses: Option[Long]
)

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
      ),
      Column.optional(
        "keys",
        Int64,
        "Number of its live keys in all stores of the group, at most some seconds old.",
        _.keys
      ),
      Column.optional("bytes", Int64, "Bytes of its live records, of the same moment.", _.bytes),
      Column.optional(
        "bytes_written",
        Int64,
        "Bytes of the records that the batch of that moment wrote to it.",
        _.bytesWritten
      ),
      Column.optional(
        "accesses",
        Int64,
        "How often a batch reads or writes a key of it, without scans of all keys: the mean of " +
          "the batches of about ten seconds before that moment.",
        _.accesses
      )
    )
  )

  /** The rows of a query.
    *
    * @param executorOf
    *   where a worker of an operator ran last
    * @param commits
    *   those that have told how large the bins are
    */
  def of(
      state: Protocol.State,
      executorOf: (Long, Int) => Option[String],
      commits: RecentCommits
  ): Vector[BinRow] = for {
    group <- state.groups
    routing = state.currentTable(group.id)
    executors = Vector.tabulate(routing.workers)(executorOf(group.id, _))
    sizes = commits.sizes(group.stores)
    bin <- 0 until routing.bins
    worker = routing.workerOf(bin)
    size = sizes(bin)
  } yield BinRow(
    group.id,
    bin,
    worker,
    executors(worker),
    size.map(_.keys),
    size.map(_.bytes),
    size.map(_.bytesWritten),
    size.map(_.accesses)
  )
}
