// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.errors.{DamagedFileException, MissingFileException}
import io.megaphone.format.{ExecutorAddress, FileName, StateName, StoreKey, WorkerId}
import io.megaphone.plan.StepId
import io.megaphone.state.{Holding, LoadedBin, Registry, Replica, ReplicaKey, StoreBatch}
import io.megaphone.transfer.{BlockKind, BlockName, Peers, TailPulls, TransferBlocks}
import io.megaphone.transfer.TransferBlocks.Part

/** Takes the bins that a batch's table gives to a worker and the table before gave to another:
  * rules 12 and 13.
  *
  * Given the worker's holding at the batch's name. The bins of each other worker are taken in the
  * cheapest way that there is:
  *   1. `relabelled`: from that worker's holding on this executor, if it is at exactly the name
  *      wanted.
  *   1. `prepared`: from the replica that was prepared here, once it is at the name wanted. The
  *      last tails of all replicas are pulled at once (`TailPulls`).
  *   1. `pulled`: from image blocks of the other executors, one after the other under one deadline,
  *      because images are large.
  *   1. `loaded`: from files.
  *
  * ''Dies at any of these:'' the next attempt starts over. Whatever is lost costs time, never
  * correctness.
  *
  * Threads: one, the task's.
  */
final private[runtime] class Adopter(
    registry: Registry,
    recovery: Recovery,
    blocks: TransferBlocks,
    peers: Peers
) {
  import Adopter._

  private val catchUp = new CatchUp(recovery)
  private val tailPulls = new TailPulls(blocks, peers)

  /** Marks the bins that leave `holding` with the batch, and adds those that come. Throws what the
    * files throw.
    */
  def apply(holding: Holding, batch: StoreBatch, sources: Sources, opened: Arrivals): Unit = {
    val worker = holding.worker
    for (bin <- batch.binsBefore(worker) if batch.after.workerOf(bin) != worker)
      holding.markLeaving(bin)
    val gained = batch.after.binsOf(worker).filterNot(holding.has)
    val routes = gained.groupBy(bin => (batch.before.workerOf(bin), sources.stepOf(bin))).toVector
    val arrivals =
      routes.sortBy { case ((source, _), bins) => (source, bins.head) }.map {
        case ((source, step), bins) =>
          Arrival(source, worker, step, batch.nameOf(source), bins.toVector)
      }
    val taking = new Taking(batch, sources, opened)
    val ways = Seq(taking.relabelled _, taking.prepared _, taking.pulled _, taking.loaded _)
    ways.foldLeft(arrivals) { (wanted, way) =>
      val taken = way(wanted)
      for ((arrival, bins) <- taken; bin <- bins) {
        holding.put(bin)
        if (arrival.source != worker) { opened.binsIn += 1; holding.markAdopted(bin.bin) }
      }
      wanted.filterNot(taken.contains)
    }
    ()
  }

  /** The ways to take bins. Each returns those of the arrivals that it could serve. */
  private final class Taking(batch: StoreBatch, sources: Sources, opened: Arrivals) {

    def relabelled(wanted: Vector[Arrival]): Taken = (for {
      arrival <- wanted if arrival.source != arrival.target
      holding <- registry.holding(WorkerId(batch.key, arrival.source))
      bins <- holding.give(arrival.name, arrival.bins)
    } yield { opened.binsRelabelled += bins.size; arrival -> bins }).toMap

    def prepared(wanted: Vector[Arrival]): Taken = {
      val replicas = for {
        arrival <- wanted
        step <- arrival.step
        key = ReplicaKey.forStep(batch.key, arrival.source, arrival.target, step)
        replica <- registry.replica(key)
      } yield (arrival, key, replica)
      try {
        val nearly = replicas.collect {
          case (arrival, _, replica) if isOneBehind(replica.base, arrival.name) => arrival
        }
        val tails = tailsOf(nearly)
        (for {
          (arrival, _, replica) <- replicas
          bins <- takenFrom(replica, arrival, tails.getOrElse(arrival, Vector.empty))
        } yield {
          opened.binsFromPeer += bins.size
          opened.count(replica.traffic)
          arrival -> bins
        }).toMap
      } finally replicas.foreach { case (_, key, _) => registry.dropReplica(key) }
    }

    /** The tails that lead to the names wanted, of all arrivals at once. */
    private def tailsOf(wanted: Vector[Arrival]): Map[Arrival, Vector[Part]] = {
      val asked = for {
        arrival <- wanted
        (block, address) <- located(arrival, BlockKind.Tail, 0)
      } yield arrival -> TailPulls.Wanted(block, address, arrival.bins)
      val come = opened.waiting(tailPulls(asked.map(_._2), sources.tailDeadlineMs))
      opened.bytesFromPeer += come.valuesIterator.flatten.map(_.bytes.length.toLong).sum
      asked.flatMap { case (arrival, tail) => come.get(tail.block).map(arrival -> _) }.toMap
    }

    /** Returns how many milliseconds are left, each time that it is asked. */
    private def deadline(ms: Long): () => Long = {
      val before = opened.waitMs
      () => ms - (opened.waitMs - before)
    }

    /** If the background thread that prepares the replica reads files for longer than a tail may
      * take, the batch goes on without the replica.
      */
    private def takenFrom(
        replica: Replica,
        arrival: Arrival,
        tail: Vector[Part]
    ): Option[Seq[LoadedBin]] = opened.waiting {
      replica
        .alone(sources.tailDeadlineMs) { holding =>
          val isThere =
            try bring(holding, arrival.name, tail)
            catch { case _: DamagedFileException | _: MissingFileException => false }
          if (isThere) holding.give(arrival.name, arrival.bins) else None
        }
        .flatten
    }

    /** Brings a replica to a name: by a tail block if one tail is missing, else by files. Returns
      * false if neither leads there.
      */
    private def bring(replica: Holding, name: StateName, tail: Vector[Part]): Boolean = {
      def isByBlock = isOneBehind(replica.base, name) && blocks.applyTail(tail, replica)
      def isByFiles = catchUp(replica, name, batch.before.contentHash).exists { bytes =>
        opened.bytesFromCheckpoint += bytes
        true
      }
      replica.base == name || isByBlock || isByFiles
    }

    def pulled(wanted: Vector[Arrival]): Taken = {
      val leftMs = deadline(sources.imageDeadlineMs)
      (for {
        arrival <- wanted.iterator
        image <- imageOf(arrival, leftMs)
        bins <- image.give(arrival.name, arrival.bins)
      } yield { opened.binsFromPeer += bins.size; arrival -> bins }).toMap
    }

    private def imageOf(arrival: Arrival, leftMs: () => Long): Option[Holding] =
      try
        blocks.replicaOf(arrival.bins, batch.after.bins) { number =>
          if (leftMs() <= 0) None
          else
            for {
              (block, address) <- located(arrival, BlockKind.Image, number)
              bytes <- opened.waiting(peers.pull(block, address, leftMs()))
            } yield { opened.bytesFromPeer += bytes.length; Part(block.toString, bytes) }
        }
      catch { case _: DamagedFileException => None }

    def loaded(wanted: Vector[Arrival]): Taken = wanted.map { arrival =>
      val file = FileName(arrival.source, arrival.name)
      val found = opened.waiting(recovery.load(file, arrival.bins, batch.before.contentHash))
      opened.bytesFromCheckpoint += found.bytes
      opened.binsFromCheckpoint += arrival.bins.size
      arrival -> arrival.bins.map(found.bins)
    }.toMap

    /** A part of the block that brings an arrival, and the executor that may have it. */
    private def located(
        arrival: Arrival,
        kind: BlockKind,
        part: Int
    ): Option[(BlockName, ExecutorAddress)] = for {
      block <- arrival.block(batch.key, kind, part)
      address <- sources.addresses.get(arrival.source)
    } yield (block, address)
  }
}

private object Adopter {
  private type Taken = Map[Arrival, Seq[LoadedBin]]

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

    /** A part of the block that brings them; None if no step moves them. */
    def block(key: StoreKey, kind: BlockKind, part: Int): Option[BlockName] =
      step.map(BlockName(key, source, target, name, kind, _, part))
  }

  private def isOneBehind(base: StateName, name: StateName): Boolean =
    base.version + 1 == name.version
}
