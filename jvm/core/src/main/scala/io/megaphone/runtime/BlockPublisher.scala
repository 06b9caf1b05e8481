// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.util.control.{NonFatal, NoStackTrace}

import io.megaphone.state.{Holding, Registry, ReplicaKey}
import io.megaphone.transfer.{BlockName, Peers, TransferBlocks}

/** Publishes the blocks of this executor's workers for others.
  *
  * Given images and tails of the workers' bins.
  *   1. `queueImage` keeps an image that `publishNext` makes later, in the background and at the
  *      rate of its run. ''Dies:'' there is no block, and the target reads files.
  *   1. `publish` and `publishTail` make a block at once, in the task's own time.
  *   1. `keep` drops what the driver's orders do not name.
  *
  * Threads: any.
  *
  * @param copyingOf
  *   gives what an attempt to copy for a replica calls after each piece, with its bytes
  * @param isUnwanted
  *   whether an image is of no use any more
  */
final class BlockPublisher private[runtime] (
    registry: Registry,
    peers: Peers,
    blocks: TransferBlocks,
    faults: FaultPoints,
    warn: String => Unit,
    copyingOf: ReplicaKey => Long => Unit,
    isUnwanted: BlockName => Boolean
) {
  import BlockPublisher._

  private val images = mutable.Queue.empty[(BlockName, TransferBlocks.Snapshot)]
  private val publishing = new AtomicInteger() // images of the queue that are being made
  // Tails and offers that are published, all parts.
  private val ofCommits = new ConcurrentHashMap[ReplicaKey, Vector[BlockName]]()

  /** Drops the images and blocks of steps that the orders do not name. */
  private[runtime] def keep(orders: Orders): Unit = {
    ofCommits.keySet.removeIf(key => !orders.isLive(key))
    images.synchronized {
      images
        .dequeueAll { case (block, _) => !orders.isLive(block.key.run, block.step) }
        .foreach { case (_, snapshot) => registry.forget(snapshot) }
    }
    peers.keep(block => orders.isLive(block.key.run, block.step))
  }

  /** Whether an image is still to be published. */
  private[megaphone] def isBehind: Boolean =
    publishing.get > 0 || images.synchronized(images.nonEmpty)

  /** Queues an image that `publishNext` will publish in the background. Until then the pages that
    * it keeps count as the executor's state.
    */
  def queueImage(block: BlockName, snapshot: TransferBlocks.Snapshot): Unit =
    images.synchronized {
      registry.count(snapshot)
      images.enqueue(block -> snapshot)
      ()
    }

  /** Makes and publishes one image of the queue, at the rate of its run. Returns false if there is
    * none of the runs that are asked for.
    */
  def publishNext(isOf: String => Boolean = _ => true): Boolean =
    images
      .synchronized(images.dequeueFirst { case (block, _) => isOf(block.key.run) })
      .exists { case (block, snapshot) =>
        publishing.incrementAndGet()
        try {
          faults.at(FaultPoints.SourcePublishing)
          val copying = copyingOf(block.replica)
          def check(bytes: Long): Unit = {
            if (isUnwanted(block)) throw new NotWanted
            copying(bytes)
          }
          offer(block)(blocks.image(snapshot, check))
          faults.at(FaultPoints.SourcePublished)
          true
        } finally {
          registry.forget(snapshot)
          publishing.decrementAndGet()
        }
      }

  /** Whether an image of a run waits to be published. */
  def hasQueued(run: String): Boolean = images.synchronized(images.exists(_._1.key.run == run))

  /** Makes and publishes an image now, as fast as it can. */
  def publish(block: BlockName, snapshot: TransferBlocks.Snapshot): Unit = {
    offer(block)(blocks.image(snapshot))
    ()
  }

  /** Publishes the tails that the last commit of a holding appended to bins. Removes those of
    * earlier commits, but for one: a target that is further behind reads files.
    */
  def publishTail(block: BlockName, holding: Holding, bins: Seq[Int]): Unit =
    publishNewest(block)(blocks.tail(holding, bins))

  /** Publishes which of the bins a holding has at its new head, in the same way. */
  def publishOffer(block: BlockName, holding: Holding, bins: Seq[Int]): Unit =
    publishNewest(block)(blocks.offer(holding, bins))

  private def publishNewest(
      block: BlockName
  )(make: ((Int, Array[Byte]) => Unit) => Unit): Unit = {
    val made = offer(block)(make)
    val known = Option(ofCommits.get(block.replica)).getOrElse(Vector.empty)
    val (kept, superseded) =
      (known ++ made).distinct.partition(_.name.version >= block.name.version - 1)
    ofCommits.put(block.replica, kept)
    try peers.remove(superseded)
    catch { case NonFatal(e) => warn(s"Blocks before $block could not be removed: $e") }
  }

  /** Losing a block costs time only (I9): a commit that is durable does not fail for it. If a part
    * cannot be published, part 0 is not, so no target pulls the others; they are removed. Returns
    * what is published.
    */
  private def offer(
      block: BlockName
  )(make: ((Int, Array[Byte]) => Unit) => Unit): Vector[BlockName] = {
    var made = Vector.empty[BlockName]
    try {
      make { (number, bytes) =>
        val part = block.copy(part = number)
        peers.publish(part, bytes)
        made :+= part
      }
      made
    } catch {
      case e: Throwable =>
        try peers.remove(made)
        catch { case NonFatal(other) => e.addSuppressed(other) }
        if (!NonFatal(e)) throw e
        if (!e.isInstanceOf[NotWanted])
          warn(s"$block could not be published; its target reads files: $e")
        Vector.empty
    }
  }
}

private object BlockPublisher {
  private final class NotWanted extends RuntimeException with NoStackTrace
}
