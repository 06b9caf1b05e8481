// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.checkpoint.{Change, Changes, Recovery, Settled}
import io.megaphone.checkpoint.planlog.History
import io.megaphone.format.{Chain, FileName, StoreId, VersionIds}
import io.megaphone.log.BinLog
import io.megaphone.plan.{Group, Operator, RoutingTable}
import io.megaphone.state.Holding

/** The reader's part of the runtime: one store's state of some bins at a version, from files alone
  * (rule 23).
  *
  * Given the plan log, and the ids of versions from the commit log.
  *   1. Partition p of a reader has the bins b with b mod n₀ = p, whatever the number of workers is
  *      now: n₀ is that of the first batch.
  *   1. The table of the batch before the version says which worker had each bin. The worker's file
  *      at the version has it. If the plan log does not say yet which of two tables that was,
  *      because a run took a step back that another has committed, a footer says it.
  *   1. The footers of these files must name that table.
  *
  * Nothing is written, no lease is taken and no memory of a run is touched, so a death at any step
  * costs nothing.
  *
  * Threads: one.
  *
  * @param history
  *   not empty
  */
final class StateReader(history: History, store: StoreId, partition: Int, recovery: Recovery) {
  // The newest start record has all column families.
  private val group: Group = history.last.get.groups
    .find(_.operators.exists(_.id == store.operator))
    .getOrElse(
      throw new NoSuchElementException(
        s"The plan log of this checkpoint knows no stateful operator ${store.operator}."
      )
    )
  val operator: Operator = group.operators.find(_.id == store.operator).get
  val binsCount: Int = history.first.get.bins
  private val tables = mutable.Map.empty[Long, RoutingTable] // by version

  /** The bins of this partition. */
  val bins: Seq[Int] = (0 until binsCount).filter(
    _ % group.firstWorkers == partition && partition < group.firstWorkers
  )

  /** The bins of this partition at a version. Throws DamagedFileException, MissingFileException or
    * PlanLogMismatchException.
    *
    * @param ids
    *   of the store's workers, by version
    */
  def load(version: Long, ids: Long => VersionIds): Holding = load(version, ids, bins)

  /** The changes that the batch that made `version` made to the bins of this partition. Throws as
    * `load` does.
    */
  def changes(version: Long, ids: Long => VersionIds): Iterator[Change] =
    filesAt(version, ids, bins).iterator.flatMap { case (file, bins) =>
      val frames = recovery.frames(file, bins.toSet, tableAt(version, ids).contentHash)
      val imaged = frames.collect { case (frame, _) if frame.isImage => frame.bin }
      lazy val before = load(version - 1, ids, imaged)
      frames.iterator.flatMap { case (frame, records) =>
        Changes.of(frame, records, before.log(frame.bin))
      }
    }

  /** Throws as `load` does if the state at `version` no longer exists, or does not exist yet. */
  def check(version: Long, ids: Long => VersionIds): Unit = filesAt(version, ids, bins).keys
    .foreach(recovery.footer(_, tableAt(version, ids).contentHash))

  private def load(version: Long, ids: Long => VersionIds, wanted: Seq[Int]): Holding = {
    val holding = new Holding(partition, binsCount)
    if (version == 0) wanted.foreach(bin => holding.put(bin, new BinLog, Chain.Empty))
    else
      for ((file, bins) <- filesAt(version, ids, wanted)) {
        val loaded = recovery.load(file, bins, tableAt(version, ids).contentHash)
        loaded.bins.valuesIterator.foreach(holding.put)
      }
    holding
  }

  /** The table of the batch that made `version`. */
  private def tableAt(version: Long, ids: Long => VersionIds): RoutingTable =
    tables.getOrElseUpdate(
      version,
      history
        .contestedAt(group.id, version - 1)
        .filter(Settled.isWrittenUnder(_, store, ids(version), version, recovery))
        .getOrElse(history.tableAt(group.id, version - 1))
    )

  /** The wanted bins at `version`, by the file that their worker wrote at the end of the batch. */
  private def filesAt(
      version: Long,
      ids: Long => VersionIds,
      wanted: Seq[Int]
  ): Map[FileName, Seq[Int]] = {
    val table = tableAt(version, ids)
    val of = ids(version)
    wanted.groupBy(table.workerOf).map { case (worker, bins) =>
      Settled.headOf(store, of, version, worker) -> bins
    }
  }
}
