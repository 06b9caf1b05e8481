// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.errors.DamagedFileException
import io.megaphone.errors.MissingBinException
import io.megaphone.errors.MissingFileException
import io.megaphone.format.{Chain, FileName, StateName, WorkerId}
import io.megaphone.log.BinLog
import io.megaphone.plan.StepId
import io.megaphone.state.{Holding, Lease, Registry, StoreBatch}
import io.megaphone.state.LoadedBin
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.{BlockName, Peers, TransferBlocks}
import io.megaphone.transfer.BlockKind

/** Opens a worker's state for a batch: rules 10 to 13.
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
final class Opener(registry: Registry, recovery: Recovery, blocks: TransferBlocks, peers: Peers) {
  import Opener._

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
      2 * touched.iterator.map(bin => holding.log(bin).tailBytes).sum + CompactionBytesMin
    holding.settle()
    touched.foreach { bin =>
      if (budget > 0) {
        val log = holding.log(bin)
        if (log.logBytes > 2 * log.liveBytes + CompactionSlackBytes) {
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
      loaded.bins.valuesIterator.foreach(holding.put)
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
    val routes = gained.groupBy(bin => (turn.before.workerOf(bin), sources.stepOf(bin)))
    routes.toSeq.sortBy { case ((source, _), bins) => (source, bins.head) }.foreach {
      case ((source, step), bins) =>
        take(turn, Arrival(source, worker, step, bins.toVector), sources, opened).foreach { bin =>
          holding.put(bin)
          if (source != worker) holding.markAdopted(bin.bin)
        }
    }
  }

  /** A worker that is new in this batch's table had no bins in the one before. */
  private def binsBefore(turn: StoreBatch, worker: Int): Array[Int] =
    if (worker < turn.before.workers) turn.before.binsOf(worker) else Array.empty[Int]

  /** Takes bins by the cheapest way there is. */
  private def take(
      turn: StoreBatch,
      arrival: Arrival,
      sources: Sources,
      opened: Arrivals
  ): Seq[LoadedBin] = {
    val name = turn.nameOf(arrival.source)
    val taken = relabelled(turn, arrival, name, opened)
      .orElse(prepared(turn, arrival, name, sources, opened))
      .orElse(pulled(turn, arrival, name, sources, opened))
      .getOrElse(loaded(turn, arrival, name, opened))
    if (arrival.source != arrival.target) opened.binsIn += taken.size
    taken
  }

  /** From the source's holding on this executor, if that is at exactly the name wanted. */
  private def relabelled(
      turn: StoreBatch,
      arrival: Arrival,
      name: StateName,
      opened: Arrivals
  ): Option[Seq[LoadedBin]] =
    if (arrival.source == arrival.target) None
    else
      for {
        holding <- registry.holding(WorkerId(turn.key, arrival.source))
        bins <- holding.give(name, arrival.bins)
      } yield { opened.binsRelabelled += bins.size; bins }

  /** From the replica that was prepared here, brought up to the name wanted. */
  private def prepared(
      turn: StoreBatch,
      arrival: Arrival,
      name: StateName,
      sources: Sources,
      opened: Arrivals
  ): Option[Seq[LoadedBin]] = for {
    step <- arrival.step
    key = ReplicaKey.forStep(turn.key, arrival.source, arrival.target, step)
    replica <- registry.replica(key)
    bins <- replica.synchronized {
      val isThere =
        try bringReplica(turn, replica, arrival, name, step, sources, opened)
        catch { case _: DamagedFileException | _: MissingFileException => false }
        finally registry.dropReplica(key)
      if (isThere) replica.give(name, arrival.bins) else None
    }
  } yield { opened.binsFromPeer += bins.size; bins }

  /** Brings a replica to the name wanted: by a tail block if one tail is missing, else by files. */
  private def bringReplica(
      turn: StoreBatch,
      replica: Holding,
      arrival: Arrival,
      name: StateName,
      step: StepId,
      sources: Sources,
      opened: Arrivals
  ): Boolean = {
    def block = BlockName(turn.key, arrival.source, arrival.target, name, BlockKind.Tail, step)
    def isByBlock = replica.base.version + 1 == name.version &&
      pull(block, sources, sources.tailDeadlineMs, opened)
        .exists(blocks.applyTail(block.toString, _, replica))
    def isByFiles = opened
      .waiting(catchUp(replica, name, turn.before.contentHash))
      .exists { bytes => opened.bytesFromCheckpoint += bytes; true }
    replica.base == name || isByBlock || isByFiles
  }

  /** From an image block of the source's executor. */
  private def pulled(
      turn: StoreBatch,
      arrival: Arrival,
      name: StateName,
      sources: Sources,
      opened: Arrivals
  ): Option[Seq[LoadedBin]] = for {
    step <- arrival.step
    block = BlockName(turn.key, arrival.source, arrival.target, name, BlockKind.Image, step)
    bytes <- pull(block, sources, sources.imageDeadlineMs, opened)
    bins <-
      try blocks.replicaOf(block.toString, bytes, turn.after.bins).give(name, arrival.bins)
      catch { case _: DamagedFileException => None }
  } yield { opened.binsFromPeer += bins.size; bins }

  private def pull(
      block: BlockName,
      sources: Sources,
      deadlineMs: Long,
      opened: Arrivals
  ): Option[Array[Byte]] = for {
    address <- sources.addresses.get(block.source)
    bytes <- opened.waiting(peers.pull(block, address, deadlineMs))
  } yield { opened.bytesFromPeer += bytes.length; bytes }

  /** From the source's files. */
  private def loaded(
      turn: StoreBatch,
      arrival: Arrival,
      name: StateName,
      opened: Arrivals
  ): Seq[LoadedBin] = {
    val file = FileName(arrival.source, name)
    val found = opened.waiting(recovery.load(file, arrival.bins, turn.before.contentHash))
    opened.bytesFromCheckpoint += found.bytes
    opened.binsFromCheckpoint += arrival.bins.size
    arrival.bins.map(found.bins)
  }
}

object Opener {
  private val CompactionBytesMin = 1L << 20
  private val CompactionSlackBytes = 1024L

  /** Bins that a worker gains from one other worker, by one step. */
  private final case class Arrival(
      source: Int,
      target: Int,
      step: Option[StepId],
      bins: Vector[Int]
  )
}
