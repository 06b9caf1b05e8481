// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.checkpoint.Change
import io.megaphone.format.StoreId
import io.megaphone.plan.RoutingTable
import io.megaphone.state.BinState

/** What is true: the state at every version as plain maps, and the table that wrote it. No code
  * under test has a part in it, but the values that accepted attempts say they wrote.
  */
final class Oracle(setup: Setup) {
  private type State = Map[StoreId, Vector[Map[Int, Long]]] // by store and bin: stamps by key
  private val states = mutable.HashMap[Long, State](
    0L -> setup.stores.map(_ -> Vector.fill(setup.bins)(Map.empty[Int, Long])).toMap
  )
  private val tables =
    mutable.HashMap.empty[Long, Map[Long, RoutingTable]] // by batch: of each group
  private var settledVersion = 0L
  private var oldestVersion = 0L

  /** Batches committed. */
  def settled: Long = settledVersion

  /** The oldest version that must be readable: what was given up once stays so, though the query
    * goes back.
    */
  def oldest: Long = oldestVersion

  /** Batch `settled` is committed: `written` is what the accepted attempts wrote, by store and key,
    * 0 for a removed key.
    */
  def commit(
      written: Seq[(StoreId, collection.Map[Int, Long])],
      by: Map[Long, RoutingTable]
  ): Unit = {
    val state = mutable.HashMap.from(states(settledVersion))
    written.foreach { case (store, cells) =>
      cells.foreach { case (key, stamp) =>
        val bin = Cells.binOf(key, setup.bins)
        val bins = state(store)
        state(store) =
          bins.updated(bin, if (stamp == 0) bins(bin) - key else bins(bin).updated(key, stamp))
      }
    }
    setup.groups.foreach(group => checkDue(group.id, state))
    tables(settledVersion) = by
    settledVersion += 1
    oldestVersion =
      math.max(oldestVersion, settledVersion - setup.retained + (if (setup.isV2) 1 else 0))
    states(settledVersion) = state.toMap
  }

  /** Nothing is left that was due in the batch. */
  private def checkDue(group: Long, state: StoreId => Vector[Map[Int, Long]]): Unit = for {
    (scanned, telling) <- setup.scansOf(group)
    (keys, bin) <- state(scanned).zipWithIndex
    key <- keys.keysIterator if Cells.familyOf(key) == 0
    stamp <- state(telling)(bin).get(key)
    if setup.timeOf(key, stamp) <= setup.dueUntil(settledVersion)
  } throw new Violation(
    s"key $key of $scanned was due in batch $settledVersion, and is still there"
  )

  /** The query goes on from an earlier version: what came later never happened. */
  def goBack(version: Long): Unit = settledVersion = version

  /** Invariant I1: R_{N-1} is the table that wrote version N. Its number does not count: a step
    * that was taken back although an older run committed its batch may have moved nothing.
    */
  def checkTables(version: Long, before: Map[Long, RoutingTable]): Unit =
    if (version > 0 && !Oracle.areAlike(tables(version - 1), before))
      throw new Violation(s"version $version was written by ${tables(version - 1)}, not by $before")

  /** Compares a bin with what it should be at a version. */
  def check(version: Long, store: StoreId, bin: Int, state: BinState): Unit = {
    val expected = states(version)(store)(bin)
    def what = s"bin $bin of $store at version $version"
    state match {
      case BinState.Absent => throw new Violation(s"$what is absent")
      case BinState.Local(log) => Cells.compare(log, expected, what)
      case BinState.Partial(log, remote) => Cells.comparePartial(log, remote, expected, what)
    }
  }

  /** The changes that a reader sees, done to the version before, make a version. */
  def checkChanges(
      version: Long,
      store: StoreId,
      bins: Seq[Int],
      changes: Iterator[Change]
  ): Unit = {
    def of(version: Long) = bins.flatMap(states(version)(store)(_)).toMap
    val made = changes.foldLeft(of(version - 1)) { (cells, change) =>
      val (key, stamp) = Cells.changeOf(change)
      stamp.fold(cells - key)(cells.updated(key, _))
    }
    if (made != of(version))
      throw new Violation(s"the changes of $store to version $version make $made of it")
  }
}

object Oracle {

  /** Whether each group has the same bins at the same workers in both. */
  def areAlike(one: Map[Long, RoutingTable], other: Map[Long, RoutingTable]): Boolean = {
    def contents(tables: Map[Long, RoutingTable]) = tables.map { case (group, table) =>
      group -> table.contentHash
    }
    contents(one) == contents(other)
  }
}
