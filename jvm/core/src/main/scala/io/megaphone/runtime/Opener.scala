// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.errors.{DamagedFileException, MissingBinException, MissingFileException}
import io.megaphone.format.{Chain, FileName, ReplicaKey, StateName}
import io.megaphone.log.BinLog
import io.megaphone.state.{Holding, Lease, Registry, StoreBatch}
import io.megaphone.transfer.{BlockName, Peers, Sources, TransferBlocks}

/** Opens a worker's state for a batch: rules 11 to 14.
  *
  *   1. `bring`: the worker's own bins to the batch's name, by the cheapest way there is: they are
  *      there; a head is settled or undone; a head that was set aside is put back; tails are read
  *      from files; all is recovered from files.
  *   1. `adopt`: each bin that the batch's table gives to this worker and the table before gave to
  *      another, by the cheapest way: the other worker's holding on this executor at exactly the
  *      name wanted; the copy prepared here, brought up to it; an image block of its executor; its
  *      files.
  *   1. What the table takes away stays where it is until the next version is settled, for others
  *      to take.
  *   1. A few bins with many dead records are compacted.
  *
  * A task that dies at any of these leaves a holding at a valid name, or none; the next attempt
  * starts over, here or anywhere. Whatever is missing costs time, never correctness.
  */
final class Opener(registry: Registry, recovery: Recovery, handOver: TransferBlocks, peers: Peers) {
  private val catchUp = new CatchUp(recovery)

  /** Makes the lease's holding what `turn` says. Throws DamagedFileException or
    * MissingFileException where the checkpoint itself lacks it.
    */
  def open(lease: Lease, turn: StoreBatch, sources: Sources): Arrivals = {
    val opened = new Arrivals
    val worker = lease.holding.worker
    lease.holding.abort()
    bring(lease, turn, opened)
    val holding = lease.holding
    if (turn.isStep || holding.checkedTable != turn.after.number) {
      adopt(holding, turn, sources, opened)
      turn.after
        .binsOf(worker)
        .find(bin => !holding.has(bin))
        .foreach(bin => throw new MissingBinException(turn.key.toString, worker, bin))
      holding.checkedTable = turn.after.number
    }
    opened
  }

  private def bring(lease: Lease, turn: StoreBatch, opened: Arrivals): Unit = {
    val holding = lease.holding
    val name = turn.nameOf(holding.worker)
    if (holding.head.contains(name)) settle(holding, turn)
    else if (holding.base == name && !isFresh(holding)) holding.undoHead()
    else {
      if (holding.head.exists(_.version >= name.version)) {
        holding.undoHead()
        if (holding.redo(name)) holding.settle()
      }
      if (holding.base != name || isFresh(holding)) {
        val caughtUp =
          if (isFresh(holding) || binsBefore(turn, holding.worker).isEmpty) None
          else catchUp(holding, name, turn.before.contentHash)
        caughtUp.foreach(bytes => opened.bytesFromCheckpoint += bytes)
        if (caughtUp.isEmpty) recover(lease, turn, name, opened)
      }
      lease.holding.checkedTable = Long.MinValue
    }
  }

  private def isFresh(holding: Holding): Boolean =
    holding.checkedTable == Long.MinValue && holding.lineage.isEmpty && holding.bins.isEmpty

  /** Rule 14: only below the settled version is anything rewritten, and only a few bins a batch.
    * Never a bin that leaves: its target may be taking it right now.
    */
  private def settle(holding: Holding, turn: StoreBatch): Unit = {
    val touched = holding.touched.toVector.filter(bin =>
      holding.has(bin) && turn.after.workerOf(bin) == holding.worker
    )
    var budget =
      2 * touched.iterator.map(bin => holding.log(bin).tailBytes).sum + Opener.CompactionBytesMin
    holding.settle()
    touched.foreach { bin =>
      if (budget > 0) {
        val log = holding.log(bin)
        if (log.logBytes > 2 * log.liveBytes + Opener.CompactionSlackBytes) {
          budget -= log.liveBytes; log.compact()
        }
      }
    }
  }

  private def recover(lease: Lease, turn: StoreBatch, name: StateName, opened: Arrivals): Unit = {
    val worker = lease.holding.worker
    val holding = lease.renew()
    val staying = binsBefore(turn, worker).filter(bin => turn.after.workerOf(bin) == worker)
    if (name.version == 0) {
      holding.restart(name, Vector.empty)
      turn.after
        .binsOf(worker)
        .foreach(bin => holding.put(bin, new BinLog(registry.budget), Chain.Empty))
    } else if (staying.isEmpty) holding.restart(name, Vector.empty)
    else {
      val loaded = recovery.load(FileName(worker, name), staying, turn.before.contentHash)
      loaded.bins.foreach { case (bin, (log, chain)) => holding.put(bin, log, chain) }
      holding.restart(name, loaded.lineage)
      opened.bytesFromCheckpoint += loaded.bytes
      opened.isRecovered = true
    }
  }

  private def adopt(
      holding: Holding,
      turn: StoreBatch,
      sources: Sources,
      opened: Arrivals
  ): Unit = {
    val worker = holding.worker
    for (bin <- binsBefore(turn, worker) if turn.after.workerOf(bin) != worker)
      holding.markLeaving(bin)
    val gained = turn.after.binsOf(worker).filterNot(holding.has)
    gained.groupBy(turn.before.workerOf).toSeq.sortBy(_._1).foreach { case (source, bins) =>
      val taken = take(turn, source, worker, bins.toVector, sources, opened)
      taken.foreach { case (bin, log, chain) =>
        holding.put(bin, log, chain)
        if (source != worker) holding.markAdopted(bin)
      }
    }
  }

  /** A worker that is new in this batch's table had no bins in the one before. */
  private def binsBefore(turn: StoreBatch, worker: Int): Array[Int] =
    if (worker < turn.before.workers) turn.before.binsOf(worker) else Array.empty[Int]

  private type Taken = Seq[(Int, BinLog, Chain)]

  private def take(
      turn: StoreBatch,
      source: Int,
      target: Int,
      bins: Vector[Int],
      sources: Sources,
      opened: Arrivals
  ): Taken = {
    val name = turn.nameOf(source)
    def relabelled =
      if (source == target) None
      else
        registry.holding(turn.key, source).flatMap(_.give(name, bins)).map { t =>
          opened.binsRelabelled += t.size; t
        }
    val copyKey = ReplicaKey(turn.key, source, target, sources.step)
    def prepared = registry
      .copy(copyKey)
      .flatMap { copy =>
        copy.synchronized {
          val isThere =
            try bringCopy(turn, copy, name, target, sources, opened)
            catch { case _: DamagedFileException | _: MissingFileException => false }
            finally registry.dropCopy(copyKey)
          if (isThere) copy.give(name, bins) else None
        }
      }
      .map { t => opened.binsFromPeer += t.size; t }
    def pulled = sources
      .addressOf(source)
      .flatMap { address =>
        val block = BlockName(turn.key, source, target, name, isImage = true, sources.step)
        opened.waiting(peers.pull(block, address, sources.imageDeadlineMs)).flatMap { bytes =>
          try {
            opened.bytesFromPeer += bytes.length;
            handOver.copyOf(block.toString, bytes, turn.after.bins).give(name, bins)
          } catch { case _: DamagedFileException => None }
        }
      }
      .map { t => opened.binsFromPeer += t.size; t }
    def loaded = {
      val l = opened.waiting(recovery.load(FileName(source, name), bins, turn.before.contentHash))
      opened.bytesFromCheckpoint += l.bytes
      opened.binsFromCheckpoint += bins.size
      bins.map { bin =>
        val (log, chain) = l.bins(bin); (bin, log, chain)
      }
    }
    val taken: Taken = relabelled.orElse(prepared).orElse(pulled).getOrElse(loaded)
    if (source != target) opened.binsIn += taken.size
    taken
  }

  /** Brings a prepared copy to the name wanted: by a tail block if one tail is missing, else by
    * files.
    */
  private def bringCopy(
      turn: StoreBatch,
      copy: Holding,
      name: StateName,
      target: Int,
      sources: Sources,
      opened: Arrivals
  ): Boolean =
    copy.base == name || {
      val byBlock =
        copy.base.version + 1 == name.version && sources.addressOf(copy.worker).exists { address =>
          val block = BlockName(turn.key, copy.worker, target, name, isImage = false, sources.step)
          opened.waiting(peers.pull(block, address, sources.tailDeadlineMs)).exists { bytes =>
            opened.bytesFromPeer += bytes.length
            handOver.applyTail(block.toString, bytes, copy)
          }
        }
      byBlock || opened.waiting(catchUp(copy, name, turn.before.contentHash)).exists { bytes =>
        opened.bytesFromCheckpoint += bytes; true
      }
    }
}

object Opener {
  private val CompactionBytesMin = 1L << 20
  private val CompactionSlackBytes = 1024L
}
