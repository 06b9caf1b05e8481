// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.io.IOException

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.checkpoint.Recovery.Loaded
import io.megaphone.errors.{DamagedFileException, MissingFileException}
import io.megaphone.format.{ExecutorAddress, FileName, StateName}
import io.megaphone.state.{Holding, Registry, Replica, Traffic}
import io.megaphone.transfer.TransferBlocks.Part

/** Prepares replicas ahead of their step, in the background: rule 19.
  *
  * Given a duty: the replica's key, the name of the source's image, if it publishes one, and its
  * newest settled name.
  *   1. If there is no replica yet, pull the image block from the source's executor and make the
  *      replica of it. The block may come later: while the run's copies progress, it is waited for.
  *      Once the source is `PatienceVersions` ahead of the image and of the last progress, make the
  *      replica of a slice of its bins, at the settled name, from files. An image that no tails
  *      lead on from is not waited for, nor is one of an executor that is gone.
  *   1. If the replica is behind the settled name, apply the tail block if one tail is missing, and
  *      tails in the files if not. Many are missing after a large image: apply `TailsForOne` of
  *      them for each version that the source has reached since the last call, and more while
  *      copies are free. The source adds one for each, so the replica comes nearer with each. If
  *      neither leads there, or anything is damaged, drop the replica; the next call starts again.
  *      If a file cannot be read now, the next call goes on. The tails of many duties are asked for
  *      at once, and each duty is worked on when the first part of its tail has come. The other
  *      parts of a large tail follow one by one.
  *   1. If bins are missing and the replica is at the settled name, add a slice of them, from
  *      files. The replica stays if that fails, and the next call goes on.
  *   1. Keep a tenth of the memory budget free for batches: spill the rest of the replica to disk,
  *      bin by bin. If the disk is full, drop the replica and throw SpillException.
  *
  * ''This executor dies:'' the driver gives the duty to another executor. ''The plan is
  * cancelled:'' orders no longer name the duty, and the replica is dropped.
  *
  * Threads: any; one call at a time for a duty.
  *
  * @param recovery
  *   reads the tails that a replica lacks, while a task may wait for the replica
  * @param loading
  *   reads slices, at any pace
  * @param copied
  *   is called after each piece of an image, with its bytes of records; it may wait
  * @param areFree
  *   whether copies keep to no rate now
  * @param sliceBytes
  *   about how many bytes of live records a slice has
  */
final class Preparer(
    registry: Registry,
    recovery: Recovery,
    loading: Recovery,
    blocks: TransferBlocks,
    peers: Peers,
    deadlineMs: Long,
    copied: Long => Unit = _ => (),
    areFree: () => Boolean = () => true,
    sliceBytes: Long = Slice.Bytes
) {
  import Preparer._

  private val catchUp = new CatchUp(recovery, TailsMax)
  private val tails = new TailPulls(blocks, peers)

  /** Works on one duty: makes the replica or brings it forward, and adds a slice if bins are
    * missing and it is at the settled name. Throws SpillException if there is no room for the
    * replica, which is dropped then. Throws IOException if a file cannot be read; a replica that
    * was there stays.
    *
    * @param pulled
    *   what has come of the tail that leads to the settled name, if it was asked for before
    * @param newVersions
    *   how many versions the source has reached since the last call
    */
  def apply(
      duty: ReplicaDuty,
      pulled: Option[TailPulls.Pulled] = None,
      newVersions: Long = 1
  ): Outcome = {
    val isNew = registry.replica(duty.key).isEmpty // then it gets its first slice now
    brought(duty, pulled, newVersions) match {
      case At(version, lacking) if !isNew && lacking > 0 && version >= duty.settled.version =>
        grow(duty)
      case outcome => outcome
    }
  }

  private def brought(
      duty: ReplicaDuty,
      pulled: Option[TailPulls.Pulled],
      newVersions: Long
  ): Outcome =
    try
      registry.replica(duty.key).orElse(if (pulled.isEmpty) make(duty) else None) match {
        case None => Waiting // or a task has taken the replica while its tail came
        case Some(replica) if !bring(replica, duty, pulled, tailsFor(newVersions)) =>
          lost(duty, s"no unbroken sequence of files leads to ${duty.settled}")
        case Some(replica) => At.of(replica)
      }
    catch {
      case e @ (_: DamagedFileException | _: MissingFileException) => lost(duty, e.getMessage)
      // The replica is at the name that it had reached before.
      case e @ (_: IOException | _: InterruptedException) => throw e
      case e: Throwable => registry.dropReplica(duty.key); throw e
    }

  private def lost(duty: ReplicaDuty, reason: String): Outcome = {
    registry.dropReplica(duty.key)
    Lost(reason)
  }

  private def make(duty: ReplicaDuty): Option[Replica] = {
    val image = duty.usableImage
    def mayReadFiles = image.forall { i =>
      duty.settled.version - math.max(i.version, duty.progressAt) >= PatienceVersions
    }
    val pulled =
      try image.flatMap(fromBlock(duty, _))
      catch { case _: DamagedFileException if mayReadFiles => None }
    pulled.orElse(Option.when(mayReadFiles)(fromFiles(duty)))
  }

  private def fromBlock(duty: ReplicaDuty, image: StateName): Option[Replica] = {
    var bytes = 0L
    blocks
      .replicaOf(
        duty.bins,
        duty.binsCount,
        (log, grown) => { log.spill(registry.budget.excessOfReplicas); copied(grown) }
      ) { number =>
        new Coming[Part] { // it begins once it is waited for: what is copied keeps to a rate
          override def await(): Option[Part] = {
            val part = pull(duty, image, BlockKind.Image, number, duty.imageAddress)
            part.foreach(bytes += _.bytes.length)
            part
          }
          override def cancel(): Unit = ()
        }
      }
      .map(registry.putReplica(duty.key, _, Traffic(fromPeer = bytes)))
  }

  /** Makes the replica of the first slice. */
  private def fromFiles(duty: ReplicaDuty): Replica = {
    val loaded = slice(duty, duty.bins.toVector)
    val replica = new Holding(duty.key.source, duty.binsCount)
    replica.restart(duty.settled, Vector.empty)
    add(replica, loaded)
    registry.putReplica(
      duty.key,
      replica,
      loaded.traffic,
      duty.bins.filterNot(replica.has).toVector
    )
  }

  /** Adds a slice to a replica that is at the settled name. Throws what the files throw; the
    * replica is then as it was.
    */
  private def grow(duty: ReplicaDuty): Outcome =
    registry.replica(duty.key).fold[Outcome](Waiting) { replica =>
      val loaded = slice(duty, replica.lacked)
      replica.alone(holding => if (holding.base == duty.settled) add(holding, loaded))
      replica.count(loaded.traffic)
      At.of(replica)
    }

  private def slice(duty: ReplicaDuty, lacked: Vector[Int]): Loaded = {
    val bins = Slice.of(lacked, duty.liveBytes.getOrElse(0L), duty.bins.size, sliceBytes)
    loading.load(FileName(duty.key.source, duty.settled), bins, duty.tableHash)
  }

  private def add(holding: Holding, loaded: Loaded): Unit = {
    loaded.bins.valuesIterator.foreach(holding.put)
    holding.spill(registry.budget.excessOfReplicas)
    ()
  }

  /** Brings a replica to the settled name, or nearer to it. Returns false if no tails lead there. A
    * task may take the replica while this waits for a peer.
    */
  private def bring(
      replica: Replica,
      duty: ReplicaDuty,
      pulled: Option[TailPulls.Pulled],
      tailsOfFiles: Int
  ): Boolean = {
    def part(number: Int) = pull(duty, duty.settled, BlockKind.Tail, number, duty.address)
    def asked = if (replica.base.version + 1 == duty.settled.version) part(0) else None
    val first = pulled.fold(asked)(_.first)
    val tail = first.fold(Vector.empty[Part])(tails.partsOf(_, duty.bins)(part))
    replica.count(Traffic(fromPeer = tail.map(_.bytes.length.toLong).sum))
    def goOn(): Boolean = {
      val atOnce = if (areFree()) math.max(tailsOfFiles, TailsIfFree) else tailsOfFiles
      replica.alone { holding =>
        def isThere = holding.base.version >= duty.settled.version
        def isNearer =
          catchUp(holding, duty.settled, duty.tableHash, atOnce).map(replica.count).isDefined
        val isKept = isThere || blocks.applyTail(tail, holding) || isNearer
        if (isKept) holding.spill(registry.budget.excessOfReplicas)
        isKept -> isThere
      } match {
        case (true, false) if areFree() => goOn()
        case (isKept, _) => isKept
      }
    }
    goOn()
  }

  private def pull(
      duty: ReplicaDuty,
      name: StateName,
      kind: BlockKind,
      number: Int,
      address: Option[ExecutorAddress]
  ): Option[Part] = {
    val block = duty.block(name, kind, number)
    address.flatMap(peers.pull(block, _, deadlineMs)).map(Part(block.toString, _))
  }
}

object Preparer {

  /** What came of a call. */
  sealed trait Outcome

  /** There is a replica at a version. It may still be behind, and lack bins. */
  final case class At(version: Long, binsLacking: Int = 0) extends Outcome
  object At {
    def of(replica: Replica): At = At(replica.base.version, replica.lacked.size)
  }

  /** There is no replica: the source has not published its image, or a task has taken it. */
  case object Waiting extends Outcome

  /** The replica was dropped, and has to be made again. */
  final case class Lost(reason: String) extends Outcome

  private val PatienceVersions = 3L

  /** How many tails of files are applied for a new version of the source: more than it adds, and
    * not many, because a batch may run.
    */
  private val TailsForOne = 2

  /** How many are applied at once while copies are free. A task may begin after that. */
  private val TailsIfFree = 8

  private def tailsFor(versions: Long) = math.min(TailsMax.toLong, TailsForOne * versions).toInt

  /** How many tails of a replica are read from files at most: more are hardly still there. */
  val TailsMax = 96

  /** Whether tails may lead on from an image to a version. */
  def tailsLeadOn(image: StateName, version: Long): Boolean = version - image.version <= TailsMax
}
