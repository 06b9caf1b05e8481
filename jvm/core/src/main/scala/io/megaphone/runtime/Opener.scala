// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.errors.DamagedFileException
import io.megaphone.errors.MissingBinException
import io.megaphone.errors.MissingFileException
import io.megaphone.format.{Chain, FileName, StateName, StoreKey, WorkerId}
import io.megaphone.log.BinLog
import io.megaphone.plan.StepId
import io.megaphone.state.{Holding, Lease, Registry, StoreBatch}
import io.megaphone.state.LoadedBin
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.{BlockName, Peers, TransferBlocks}
import io.megaphone.transfer.BlockKind

/** Opens a worker's state for a batch: rules 10 to 13.
  *
  * Given the lease, the batch's tables and names, and the sources of its steps.
  *   1. `bring` takes the worker's own bins to the batch's name, in the cheapest way: they are at
  *      that name already; the head is settled or undone; a head that was set aside is restored;
  *      tails are read from files; all bins are recovered from files.
  *   1. A few bins with many dead records are compacted.
  *   1. Bins that the batch's table takes from this worker stay in the holding until the next
  *      version is settled, so that their new workers can take them.
  *   1. `adopt` takes each bin that the batch's table gives to this worker and the table before
  *      gave to another, in the cheapest way: from that worker's holding on this executor, if that
  *      is at exactly the name wanted; from the replica that was prepared here, once it is brought
  *      to the name; from an image block of that worker's executor; from its files.
  *
  * ''Dies at any of these:'' the holding is at a valid name, or gone. The next attempt starts over,
  * here or elsewhere. Whatever is lost costs time, never correctness.
  *
  * Threads: one, the task's.
  */
final class Opener(registry: Registry, recovery: Recovery, blocks: TransferBlocks, peers: Peers) {
  import Opener._

  private val catchUp = new CatchUp(recovery)

  /** Brings the lease's holding to the state that `batch` begins with. Throws DamagedFileException
    * or MissingFileException if the checkpoint does not have that state, MissingBinException if a
    * bin of the worker is still absent.
    */
  def open(lease: Lease, batch: StoreBatch, sources: Sources): Arrivals = {
    val opened = new Arrivals
    val worker = lease.holding.worker
    lease.holding.abort()
    bring(lease, batch, opened)
    val holding = lease.holding
    if (batch.isStep || holding.checkedTable != batch.after.number) {
      adopt(holding, batch, sources, opened)
      batch.after
        .binsOf(worker)
        .find(bin => !holding.has(bin))
        .foreach(bin => throw new MissingBinException(batch.key.toString, worker, bin))
      holding.checkedTable = batch.after.number
    }
    opened
  }

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
          if (isFresh(holding) || binsBefore(batch, holding.worker).isEmpty) None
          else catchUp(holding, name, batch.before.contentHash)
        caughtUp.foreach(bytes => opened.bytesFromCheckpoint += bytes)
        if (caughtUp.isEmpty) recover(lease, batch, name, opened)
      }
      lease.holding.checkedTable = Long.MinValue
    }
  }

  private def isFresh(holding: Holding): Boolean =
    holding.checkedTable == Long.MinValue && holding.lineage.isEmpty && holding.bins.isEmpty

  /** Settles the head, and compacts bins: rule 14. Only settled records are rewritten, and only a
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
          budget -= log.liveBytes; log.compact()
        }
      }
    }
  }

  private def recover(lease: Lease, batch: StoreBatch, name: StateName, opened: Arrivals): Unit = {
    val worker = lease.holding.worker
    val holding = lease.renew()
    val staying = binsBefore(batch, worker).filter(bin => batch.after.workerOf(bin) == worker)
    if (name.version == 0) {
      holding.restart(name, Vector.empty)
      batch.after
        .binsOf(worker)
        .foreach(bin => holding.put(bin, new BinLog(registry.budget), Chain.Empty))
    } else if (staying.isEmpty) holding.restart(name, Vector.empty)
    else {
      val loaded = recovery.load(FileName(worker, name), staying, batch.before.contentHash)
      loaded.bins.valuesIterator.foreach(holding.put)
      holding.restart(name, loaded.lineage)
      opened.bytesFromCheckpoint += loaded.bytes
      opened.isRecovered = true
    }
  }

  private def adopt(
      holding: Holding,
      batch: StoreBatch,
      sources: Sources,
      opened: Arrivals
  ): Unit = {
    val worker = holding.worker
    for (bin <- binsBefore(batch, worker) if batch.after.workerOf(bin) != worker)
      holding.markLeaving(bin)
    val gained = batch.after.binsOf(worker).filterNot(holding.has)
    val routes = gained.groupBy(bin => (batch.before.workerOf(bin), sources.stepOf(bin)))
    routes.toSeq.sortBy { case ((source, _), bins) => (source, bins.head) }.foreach {
      case ((source, step), bins) =>
        val arrival = Arrival(source, worker, step, batch.nameOf(source), bins.toVector)
        take(batch, arrival, sources, opened).foreach { bin =>
          holding.put(bin)
          if (source != worker) holding.markAdopted(bin.bin)
        }
    }
  }

  /** The bins that the table before gave to a worker; a worker that is new had none. */
  private def binsBefore(batch: StoreBatch, worker: Int): Array[Int] =
    if (worker < batch.before.workers) batch.before.binsOf(worker) else Array.empty[Int]

  /** Takes bins in the cheapest way. */
  private def take(
      batch: StoreBatch,
      arrival: Arrival,
      sources: Sources,
      opened: Arrivals
  ): Seq[LoadedBin] = {
    val taken = relabelled(batch, arrival, opened)
      .orElse(prepared(batch, arrival, sources, opened))
      .orElse(pulled(batch, arrival, sources, opened))
      .getOrElse(loaded(batch, arrival, opened))
    if (arrival.source != arrival.target) opened.binsIn += taken.size
    taken
  }

  /** From the source's holding on this executor, if that is at exactly the name wanted. */
  private def relabelled(
      batch: StoreBatch,
      arrival: Arrival,
      opened: Arrivals
  ): Option[Seq[LoadedBin]] =
    if (arrival.source == arrival.target) None
    else
      for {
        holding <- registry.holding(WorkerId(batch.key, arrival.source))
        bins <- holding.give(arrival.name, arrival.bins)
      } yield { opened.binsRelabelled += bins.size; bins }

  /** From the replica that was prepared here, once it is at the name wanted. If the background
    * thread that prepares it reads files for longer than the deadline, the batch goes on without.
    */
  private def prepared(
      batch: StoreBatch,
      arrival: Arrival,
      sources: Sources,
      opened: Arrivals
  ): Option[Seq[LoadedBin]] = for {
    step <- arrival.step
    key = ReplicaKey.forStep(batch.key, arrival.source, arrival.target, step)
    replica <- registry.replica(key)
    bins <-
      try
        opened.waiting(
          replica
            .alone(sources.tailDeadlineMs)(takenFrom(_, batch, arrival, sources, opened))
            .flatten
        )
      finally registry.dropReplica(key)
  } yield { opened.binsFromPeer += bins.size; bins }

  /** The bins of a replica, at the name wanted. */
  private def takenFrom(
      replica: Holding,
      batch: StoreBatch,
      arrival: Arrival,
      sources: Sources,
      opened: Arrivals
  ): Option[Seq[LoadedBin]] = {
    val isThere =
      try bringReplica(batch, replica, arrival, sources, opened)
      catch { case _: DamagedFileException | _: MissingFileException => false }
    if (isThere) replica.give(arrival.name, arrival.bins) else None
  }

  /** Brings a replica to the name wanted: by a tail block if one tail is missing, else by files.
    * Returns false if neither leads there.
    */
  private def bringReplica(
      batch: StoreBatch,
      replica: Holding,
      arrival: Arrival,
      sources: Sources,
      opened: Arrivals
  ): Boolean = {
    val name = arrival.name
    def isByBlock = replica.base.version + 1 == name.version && (for {
      block <- arrival.block(batch.key, BlockKind.Tail)
      bytes <- pull(block, sources, sources.tailDeadlineMs, opened)
    } yield blocks.applyTail(block.toString, bytes, replica)).contains(true)
    def isByFiles = opened
      .waiting(catchUp(replica, name, batch.before.contentHash))
      .exists { bytes => opened.bytesFromCheckpoint += bytes; true }
    replica.base == name || isByBlock || isByFiles
  }

  /** From an image block of the source's executor. */
  private def pulled(
      batch: StoreBatch,
      arrival: Arrival,
      sources: Sources,
      opened: Arrivals
  ): Option[Seq[LoadedBin]] = for {
    block <- arrival.block(batch.key, BlockKind.Image)
    bytes <- pull(block, sources, sources.imageDeadlineMs, opened)
    bins <-
      try blocks.replicaOf(block.toString, bytes, batch.after.bins).give(arrival.name, arrival.bins)
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
      batch: StoreBatch,
      arrival: Arrival,
      opened: Arrivals
  ): Seq[LoadedBin] = {
    val file = FileName(arrival.source, arrival.name)
    val found = opened.waiting(recovery.load(file, arrival.bins, batch.before.contentHash))
    opened.bytesFromCheckpoint += found.bytes
    opened.binsFromCheckpoint += arrival.bins.size
    arrival.bins.map(found.bins)
  }
}

object Opener {
  private val CompactionBytesMin = 1L << 20
  private val CompactionSlackBytes = 1024L

  /** Bins that a worker gains from one other worker, by one step.
    *
    * @param name
    *   the state of the source to take them from
    */
  private final case class Arrival(
      source: Int,
      target: Int,
      step: Option[StepId],
      name: StateName,
      bins: Vector[Int]
  ) {

    /** The block that brings them; None if no step moves them. */
    def block(key: StoreKey, kind: BlockKind): Option[BlockName] =
      step.map(BlockName(key, source, target, name, kind, _))
  }
}
