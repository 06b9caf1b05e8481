// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import io.megaphone.errors.PlanLogMismatchException
import io.megaphone.format.{FileName, StoreId, VersionIds}
import io.megaphone.plan.RoutingTable

/** A settled version of a query's state.
  *
  * @param tables
  *   by group: the table whose workers wrote the version
  * @param ids
  *   by store: checkpoint ids of its workers; none under checkpoint format v1
  */
final case class Settled(
    version: Long,
    tables: Map[Long, RoutingTable],
    ids: Map[StoreId, VersionIds]
) {

  /** The newest file of each worker of a store that has bins. */
  def heads(group: Long, store: StoreId): Vector[Sweep.Head] = {
    val table = tables(group)
    val binsOf = Vector.range(0, table.bins).groupBy(table.workerOf)
    binsOf.toVector.sortBy(_._1).map { case (worker, bins) =>
      val file = Settled.headOf(store, ids.getOrElse(store, VersionIds.Fixed), version, worker)
      Sweep.Head(file, bins, table.contentHash)
    }
  }
}

object Settled {

  /** The file that a worker wrote as it made `version`. Throws PlanLogMismatchException if the ids
    * of that version have no such worker.
    */
  def headOf(store: StoreId, ids: VersionIds, version: Long, worker: Int): FileName =
    if (ids.isFixed || worker < ids.ids.size) FileName(worker, ids.nameOf(version, worker))
    else throw PlanLogMismatchException.noWorker(store.toString, version, worker, ids.ids.size)

  /** Whether a store's `version` was written under a table: a footer says so. Throws
    * MissingFileException or DamagedFileException.
    */
  def isWrittenUnder(
      table: RoutingTable,
      store: StoreId,
      ids: VersionIds,
      version: Long,
      recovery: Recovery
  ): Boolean = {
    val head = headOf(store, ids, version, worker = 0) // every table has a worker 0
    recovery.footer(head).tableHash == table.contentHash
  }
}
