// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.errors.MissingBinException
import io.megaphone.format.{Chain, FileName, StateName, StoreKey}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.SpillException
import io.megaphone.pace.Clock
import io.megaphone.state.{Holding, Lease, Registry, StoreBatch}
import io.megaphone.transfer.{Peers, TransferBlocks}

/** Opens a worker's state for a batch: rules 11 to 13.
  *
  * Given the lease, the batch's tables and names, and the sources of its steps.
  *   1. `bring` takes the worker's own bins to the batch's name, in the cheapest way: they are at
  *      that name already; the head is settled or undone; a head that was set aside is restored;
  *      tails are read from files; all bins are recovered from files.
  *   1. A few bins with many dead records are compacted.
  *   1. Bins that the batch's table takes from this worker stay in the holding until the next
  *      version is settled, so that their new workers can take them.
  *   1. Each bin that the batch's table gives to this worker and the table before gave to another
  *      is taken: see [[Adopter]].
  *
  * ''Dies at any of these:'' the holding is at a valid name, or gone. The next attempt starts over,
  * here or elsewhere. Whatever is lost costs time, never correctness.
  *
  * Threads: one, the task's.
  *
  * @param fetchDeadlineMs
  *   how long a source of a step on demand may take for each answer
  */
final class Opener(
    registry: Registry,
    recovery: Recovery,
    blocks: TransferBlocks,
    peers: Peers,
    fetchDeadlineMs: Long = 0,
    clock: Clock = Clock.System
) {
  import Opener._

  private val catchUp = new CatchUp(recovery)
  private val adopter = new Adopter(registry, recovery, blocks, peers)

  /** Brings the lease's holding to the state that `batch` begins with. Throws DamagedFileException
    * or MissingFileException if the checkpoint does not have that state, MissingBinException if a
    * bin of the worker is still absent.
    */
  def open(lease: Lease, batch: StoreBatch, sources: Sources): Arrivals = {
    val opened = new Arrivals(clock)
    val worker = lease.holding.worker
    lease.holding.abort()
    bring(lease, batch, opened)
    val holding = lease.holding
    if (batch.isStep || holding.checkedTable != batch.after.number) {
      adopter(holding, batch, sources, opened, lease.attempt)
      batch.after
        .binsOf(worker)
        .find(bin => !holding.has(bin))
        .foreach(bin => throw missing(batch, worker, bin))
      holding.checkedTable = batch.after.number
    }
    if (holding.areIncomplete)
      fetcher(lease, batch.key, opened)
        .complete(holding.incomplete.map(_._1).filterNot(batch.incomplete))
    opened.count(holding.cameBetween)
    opened
  }

  /** What brings the sub-bins that a task with this lease needs. */
  def fetcher(lease: Lease, store: StoreKey, opened: Arrivals): Fetcher =
    new Fetcher(registry, store, lease, peers, recovery, opened, fetchDeadlineMs, clock)

  private def missing(batch: StoreBatch, worker: Int, bin: Int) =
    new MissingBinException(
      s"${batch.key}, version ${batch.version}, ${batch.after}; worker " +
        s"${batch.before.workerOf(bin)} had the bin before",
      worker,
      bin
    )

  private def bring(lease: Lease, batch: StoreBatch, opened: Arrivals): Unit = {
    val holding = lease.holding
    val name = batch.nameOf(holding.worker)
    if (holding.head.contains(name)) settle(holding, batch)
    else if (holding.base == name && !isFresh(holding)) holding.undoHead()
    else {
      if (holding.head.exists(_.version >= name.version)) {
        holding.undoHead()
        if (holding.redo(name)) holding.settle()
      }
      if (holding.base != name || isFresh(holding)) {
        val caughtUp =
          if (isFresh(holding) || batch.binsBefore(holding.worker).isEmpty) None
          else opened.waiting(catchUp(holding, name, batch.before.contentHash))
        caughtUp.foreach(opened.count)
        if (caughtUp.isEmpty) recover(lease, batch, name, opened)
      }
      lease.holding.checkedTable = Long.MinValue
    }
  }

  private def isFresh(holding: Holding): Boolean =
    holding.checkedTable == Long.MinValue && holding.lineage.isEmpty && holding.bins.isEmpty

  /** Settles the head, and compacts bins: rule 13. Only settled records are rewritten, and only a
    * few bins a batch. A bin that leaves is never compacted: its target may be taking it now.
    */
  private def settle(holding: Holding, batch: StoreBatch): Unit = {
    val touched = holding.touched.toVector
      .filter(bin => batch.after.workerOf(bin) == holding.worker)
      .flatMap(holding.stateOf(_).here)
    var budget = 2 * touched.iterator.map(_.tailBytes).sum + CompactionBytesMin
    holding.settle()
    touched.foreach { log =>
      if (budget > 0) {
        if (log.logBytes > 2 * log.liveBytes + CompactionSlackBytes) {
          budget -= log.liveBytes
          try log.compact()
          catch { case _: SpillException => budget = 0 } // it may wait for room; the batch goes on
        }
      }
    }
  }

  private def recover(lease: Lease, batch: StoreBatch, name: StateName, opened: Arrivals): Unit = {
    val worker = lease.holding.worker
    val holding = lease.renew()
    val staying = batch.binsBefore(worker).filter(bin => batch.after.workerOf(bin) == worker)
    if (name.version == 0) {
      holding.restart(name, Vector.empty)
      batch.after
        .binsOf(worker)
        .foreach(bin => holding.put(bin, new BinLog(registry.budget), Chain.Empty))
    } else if (staying.isEmpty) holding.restart(name, Vector.empty)
    else {
      val loaded = opened.waiting(
        recovery.load(FileName(worker, name), staying, batch.before.contentHash)
      )
      loaded.bins.valuesIterator.foreach(holding.put)
      holding.restart(name, loaded.lineage)
      opened.count(loaded.traffic)
      opened.binsRecovered = staying.size
    }
  }
}

private object Opener {
  val CompactionBytesMin: Long = 1L << 20
  val CompactionSlackBytes: Long = 1024L
}
