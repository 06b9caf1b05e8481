// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import scala.annotation.tailrec
import scala.collection.mutable

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.errors.{DamagedFileException, MissingFileException}
import io.megaphone.format.{Chain, ExecutorAddress, FileName, StateName, StoreKey, WorkerId}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.SpillException
import io.megaphone.plan.StepId
import io.megaphone.state.{
  Attempt, Holding, Lease, LoadedBin, Registry, Remote, Replica, ReplicaKey, StoreBatch
}
import io.megaphone.transfer.{BlockKind, BlockName, Coming, Peers, TailPulls, TransferBlocks}
import io.megaphone.transfer.TransferBlocks.Part

/** Takes the bins that a batch's table gives to a worker and the table before gave to another: rule
  * 12.
  *
  * Given the worker's holding at the batch's name. The bins of each other worker are taken in the
  * cheapest way that there is:
  *   1. `relabelled`: from that worker's holding on this executor, if it is at exactly the name
  *      wanted.
  *   1. `stoodBy`: from a standby of that worker on this executor, once its tails have brought it
  *      to the name wanted. If there are many, the two ways below come first.
  *   1. `prepared`: from the replica that was prepared here, once it is at the name wanted. The
  *      last tails of all replicas are pulled at once, and each is applied when it comes
  *      (`TailPulls`).
  *   1. `offered`: by a step on demand, the bins without their records, which come as they are
  *      needed (`Fetcher`).
  *   1. `pulled`: from image blocks of the other executors, one after the other under one deadline,
  *      because images are large. The next part is on its way while one is taken in. None waits
  *      longer for a part than an answer takes, so that a source that hangs leaves time for the
  *      others.
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

  private val applied = new AtomicLong // pieces of tails
  private val catchUp = new CatchUp(recovery, gotOn = () => { applied.incrementAndGet(); () })
  private val tailPulls = new TailPulls(blocks, peers)

  /** Marks the bins that leave `holding` with the batch, and adds those that come. Throws what the
    * files throw.
    */
  def apply(
      holding: Holding,
      batch: StoreBatch,
      sources: Sources,
      opened: Arrivals,
      attempt: Attempt
  ): Unit = {
    val worker = holding.worker
    for (bin <- batch.binsBefore(worker) if batch.after.workerOf(bin) != worker)
      holding.markLeaving(bin, registry.isStandby(WorkerId(batch.key, batch.after.workerOf(bin))))
    for ((step, routes) <- sources.onDemand; route <- routes if route.source == worker) {
      val key = ReplicaKey.forStep(batch.key, worker, route.target, step)
      if (registry.exports.isAnnounced(key)) // so the target has an offer
        registry.exports.of(key, batch.nameOf(worker), route.bins) // before they are dropped
    }
    val gained = batch.after.binsOf(worker).filterNot(holding.has)
    val routes = gained.groupBy(bin => (batch.before.workerOf(bin), sources.stepOf(bin))).toVector
    val gains =
      routes.sortBy { case ((source, _), bins) => (source, bins.head) }.map {
        case ((source, step), bins) =>
          Gain(source, worker, step, batch.nameOf(source), bins.toVector)
      }
    val taking = new Taking(batch, sources, opened, attempt)
    import taking.{loaded, offered, prepared, pulled, relabelled, stoodBy}
    val ways = Seq(
      relabelled _,
      stoodBy(FewVersions) _,
      prepared _,
      offered _,
      pulled _,
      stoodBy(Long.MaxValue) _,
      loaded _
    )
    ways.foldLeft(gains) { (wanted, way) =>
      val taken = way(wanted)
      for ((gain, bins) <- taken; bin <- bins) {
        holding.put(bin)
        if (gain.source != worker) { opened.binsIn += 1; holding.markAdopted(bin.bin) }
      }
      wanted.filterNot(taken.contains)
    }
    ()
  }

  /** The ways to take bins. Each returns those of the gains that it could serve. */
  private final class Taking(
      batch: StoreBatch,
      sources: Sources,
      opened: Arrivals,
      attempt: Attempt
  ) {

    def relabelled(wanted: Vector[Gain]): Taken = (for {
      gain <- wanted if gain.source != gain.target
      holding <- registry.holding(WorkerId(batch.key, gain.source))
      bins <- holding.give(gain.name, gain.bins)
    } yield { opened.binsRelabelled += bins.size; gain -> bins }).toMap

    /** @param behindMax
      *   how many versions a standby may be behind
      */
    def stoodBy(behindMax: Long)(wanted: Vector[Gain]): Taken = (for {
      gain <- wanted if gain.source != gain.target
      source = WorkerId(batch.key, gain.source)
      standby <- registry.holding(source)
      // Another step of this batch may have brought it there.
      behind = gain.name.version - standby.base.version
      if standby.base == gain.name ||
        behind <= behindMax && catchUp.canLead(standby.base.version, gain.name.version)
      if gain.bins.forall(standby.hasWhole) // a tail would drop the others
      bins <- opened.waiting(takenFrom(source, gain))
    } yield { opened.binsRelabelled += bins.size; gain -> bins }).toMap

    /** Brings a standby forward, one tail under each lease: its worker's task may wait. Its own
      * task may bring it there as well.
      */
    @tailrec
    private def takenFrom(source: WorkerId, gain: Gain): Option[Seq[LoadedBin]] = {
      val borrower =
        new Attempt(attempt.id, attempt.isAlive, isTask = false, () => applied.get)
      val lease = registry.borrow(source, borrower)(_.base == gain.name)
      lease.fold(Option.when(attempt.isAlive())(false))(brought(_, gain)) match {
        case Some(true) => takenFrom(source, gain)
        case Some(false) => registry.holding(source).flatMap(_.give(gain.name, gain.bins))
        case None => None
      }
    }

    /** Brings a standby one tail further. Returns whether it is on its way; None if nothing leads
      * there, or the attempt was killed: its bins are then another attempt's.
      */
    private def brought(lease: Lease, gain: Gain): Option[Boolean] =
      try
        lease.forStandby {
          val read = catchUp(lease.holding, gain.name, batch.before.contentHash, atOnce = 1)
          read.foreach(opened.count)
          read.filter(_ => attempt.isAlive()).map(_ => lease.holding.base != gain.name)
        }
      catch { case _: DamagedFileException | _: MissingFileException | _: SpillException => None }

    def prepared(wanted: Vector[Gain]): Taken = {
      val replicas = for {
        gain <- wanted
        step <- gain.step
        key = ReplicaKey.forStep(batch.key, gain.source, gain.target, step)
        replica <- registry.replica(key)
      } yield (gain, key, replica)
      val whole = replicas.collect { case (gain, _, r) if r.isWhole => gain -> r }
      val left = mutable.LinkedHashMap.from(whole)
      val taken = Map.newBuilder[Gain, Seq[LoadedBin]]
      def take(gain: Gain, tail: Vector[Part]): Unit = for {
        replica <- left.remove(gain)
        bins <- takenFrom(replica, gain, tail)
      } {
        opened.binsFromPeer += bins.size
        opened.count(replica.traffic)
        taken += gain -> bins
      }
      try {
        val nearly = for {
          (gain, replica) <- left.toVector if isOneBehind(replica.base, gain.name)
          (block, address) <- located(gain, BlockKind.Tail, 0)
        } yield gain -> TailPulls.Wanted(block, address)
        opened.waiting {
          tailPulls(nearly, sources.tailDeadlineMs) { (gain, first) =>
            opened.bytesFromPeer += first.bytes.length
            take(gain, tailPulls.partsOf(first, gain.bins)(furtherPart(gain, _)))
          }
        }
        left.keys.toVector.foreach(take(_, Vector.empty))
        taken.result()
      } finally replicas.foreach { case (_, key, _) => registry.dropReplica(key) }
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
        gain: Gain,
        tail: Vector[Part]
    ): Option[Seq[LoadedBin]] = opened.waiting {
      replica
        .alone(sources.tailDeadlineMs) { holding =>
          val isThere =
            try bring(holding, gain.name, tail)
            catch { case _: DamagedFileException | _: MissingFileException => false }
          if (isThere) holding.give(gain.name, gain.bins) else None
        }
        .flatten
    }

    /** Brings a replica to a name: by a tail block if one tail is missing, else by files. Returns
      * false if neither leads there.
      */
    private def bring(replica: Holding, name: StateName, tail: Vector[Part]): Boolean = {
      def isByBlock = isOneBehind(replica.base, name) && blocks.applyTail(tail, replica)
      def isByFiles = catchUp(replica, name, batch.before.contentHash).exists { traffic =>
        opened.count(traffic)
        true
      }
      replica.base == name || isByBlock || isByFiles
    }

    /** A further part of a large tail. All of these have one more deadline together. */
    private def furtherPart(gain: Gain, number: Int): Option[Part] = if (furtherMs <= 0) None
    else {
      val start = System.nanoTime
      val come = pulling(gain, BlockKind.Tail, number, furtherMs).await()
      furtherMs -= TimeUnit.NANOSECONDS.toMillis(System.nanoTime - start)
      come
    }
    private var furtherMs = sources.tailDeadlineMs

    def pulled(wanted: Vector[Gain]): Taken = {
      val leftMs = deadline(sources.imageDeadlineMs)
      (for {
        gain <- wanted.iterator
        image <- imageOf(gain, leftMs)
        bins <- image.give(gain.name, gain.bins)
      } yield { opened.binsFromPeer += bins.size; gain -> bins }).toMap
    }

    def offered(wanted: Vector[Gain]): Taken = {
      val offers = (for {
        gain <- wanted
        step <- gain.step if sources.onDemand.contains(step)
        (block, address) <- located(gain, BlockKind.Offer, 0)
      } yield block -> (gain, step, address)).toMap
      val taken = Map.newBuilder[Gain, Seq[LoadedBin]]
      if (offers.nonEmpty) opened.waiting {
        val asked = offers.iterator.map { case (block, (_, _, address)) =>
          block -> address
        }.toVector
        peers.pullAll(asked, sources.tailDeadlineMs) { (block, bytes) =>
          val (gain, step, address) = offers(block)
          opened.bytesFromPeer += bytes.length
          val file = FileName(gain.source, gain.name)
          val found =
            try blocks.offered(Part(block.toString, bytes), file, gain.bins)
            catch { case _: DamagedFileException => None }
          for (bins <- found)
            taken += gain -> gain.bins.map(bin => incomplete(gain, step, address, bin, bins(bin)))
        }
      }
      taken.result()
    }

    private def incomplete(
        gain: Gain,
        step: StepId,
        at: ExecutorAddress,
        bin: Int,
        offered: (Chain, Long)
    ): LoadedBin = {
      val (chain, keys) = offered
      val key = ReplicaKey.forStep(batch.key, gain.source, gain.target, step)
      def remote = new Remote(key, gain.name, chain, Some(at), keys)
      LoadedBin(bin, new BinLog(registry.budget), chain, Option.when(keys > 0)(remote))
    }

    private def imageOf(gain: Gain, leftMs: () => Long): Option[Holding] =
      try
        blocks.replicaOf(gain.bins, batch.after.bins) { number =>
          val ms = math.min(leftMs(), ImpatientPeers.AnswerMs)
          if (ms <= 0) Coming.now(None) else pulling(gain, BlockKind.Image, number, ms)
        }
      catch { case _: DamagedFileException => None }

    private def pulling(
        gain: Gain,
        kind: BlockKind,
        part: Int,
        deadlineMs: Long
    ): Coming[Part] = located(gain, kind, part) match {
      case None => Coming.now(None)
      case Some((block, address)) =>
        val coming = opened.waiting(peers.pulling(block, address, deadlineMs))
        new Coming[Part] {
          override def await(): Option[Part] = opened.waiting(coming.await()).map { bytes =>
            opened.bytesFromPeer += bytes.length
            Part(block.toString, bytes)
          }
          override def cancel(): Unit = coming.cancel()
        }
    }

    def loaded(wanted: Vector[Gain]): Taken = wanted.map { gain =>
      val file = FileName(gain.source, gain.name)
      val found = opened.waiting(recovery.load(file, gain.bins, batch.before.contentHash))
      opened.count(found.traffic)
      opened.binsFromCheckpoint += gain.bins.size
      gain -> gain.bins.map(found.bins)
    }.toMap

    /** A part of the block that brings a gain, and the executor that may have it. */
    private def located(
        gain: Gain,
        kind: BlockKind,
        part: Int
    ): Option[(BlockName, ExecutorAddress)] = for {
      block <- gain.block(batch.key, kind, part)
      address <- sources.addresses.get(gain.source)
    } yield (block, address)
  }
}

private object Adopter {

  /** Tails of a standby that are less than a replica or an image costs. */
  private val FewVersions = 2L

  private type Taken = Map[Gain, Seq[LoadedBin]]

  /** Bins that a worker gains from one other worker, by one step.
    *
    * @param name
    *   the state of the source to take them from
    */
  private final case class Gain(
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
