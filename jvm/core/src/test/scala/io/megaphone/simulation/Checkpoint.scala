// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.checkpoint.planlog.{History, LogRecord, PlanLog}
import io.megaphone.format.{StoreId, VersionIds}
import io.megaphone.testkit.MemoryRecords

/** The checkpoint of a query, in memory: what outlives every process. */
final class Checkpoint(setup: Setup, faults: Faults) {

  /** By batch: what its rows follow from. */
  val offsets: mutable.TreeMap[Long, Long] = mutable.TreeMap.empty

  /** By batch N: by store, ids of the state at version N + 1; none under checkpoint format v1. */
  val commits: mutable.TreeMap[Long, Map[StoreId, VersionIds]] = mutable.TreeMap.empty
  val planLog = new MemoryPlanLog(faults)
  val files: Map[StoreId, SimulatedFiles] =
    setup.stores.map(s => s -> new SimulatedFiles(s.toString, faults)).toMap

  /** The ids of a version: those in the commit log of the batch before. None if that is purged. */
  def idsAt(version: Long): Option[Map[StoreId, VersionIds]] =
    if (version == 0) Some(Map.empty) else commits.get(version - 1)

  def latestCommitted: Option[Long] = commits.lastOption.map(_._1)

  /** What Spark does as it constructs a batch: old entries go. */
  def purge(batch: Long): Unit =
    commits.filterInPlace((committed, _) => committed >= batch - setup.retained)

  /** A user goes back to `version`: deletes everything that came later, except the state. */
  def goBack(version: Long): Unit = {
    offsets.filterInPlace((batch, _) => batch < version)
    commits.filterInPlace((batch, _) => batch < version)
  }
}

/** The plan log: numbered records, none ever overwritten, unless a fault does. */
final class MemoryPlanLog(faults: Faults) extends MemoryRecords {

  /** Whether records that were appended are lost. */
  var isDamaged = false

  def history: History = new PlanLog(this).read()

  /** Loses the newest records, as `truncate` does. */
  def damage(next: Long): Unit = if (next < nextNumber) { truncate(next); isDamaged = true }

  override def create(number: Long, record: LogRecord): Boolean = {
    if (number > nextNumber)
      throw new Violation(s"record $number would leave a gap before it: $nextNumber is the next")
    super.create(number, record) || faults.strikes(Fault.RecordReplaced) && {
      replace(number, record)
      isDamaged = true
      true
    }
  }
}
