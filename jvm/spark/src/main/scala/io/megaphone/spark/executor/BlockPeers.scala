// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{
  ConcurrentHashMap, Executor, ExecutorService, Future, TimeoutException, TimeUnit
}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.BlockStore

import io.megaphone.format.ExecutorAddress
import io.megaphone.runtime.FaultPoints
import io.megaphone.transfer.{BlockName, Peers}

/** The memory of other executors, through Spark's block manager. Authentication and encryption are
  * as configured for Spark. Under memory pressure moves become slower, and nothing fails.
  *
  * Threads: any.
  *
  * @param threads
  *   run the pulls, so that each has its own deadline instead of Spark's network time-out
  * @param removals
  *   remove blocks; it must have a thread for each removal that hangs
  */
final class BlockPeers(
    blocks: BlockStore,
    threads: ExecutorService,
    removals: Executor,
    faults: FaultPoints
) extends Peers
    with Logging {
  private val published = ConcurrentHashMap.newKeySet[BlockName]()

  override def address: ExecutorAddress = blocks.address

  /** Makes a block available to other executors. Called twice: the second call does nothing, unless
    * the first one failed. Throws what Spark's block manager throws.
    */
  override def publish(block: BlockName, bytes: Array[Byte]): Unit =
    if (published.add(block))
      try faults.published(bytes).foreach(blocks.put(block.toString, _))
      catch {
        case e: Throwable =>
          published.remove(block)
          blocks.remove(block.toString)
          throw e
      }

  /** Removes the blocks that are not wanted. Does not wait for it: Spark removes a block only once
    * nobody reads it, and a target that hangs reads for ever.
    */
  override def keep(isWanted: BlockName => Boolean): Unit =
    published.asScala.filterNot(isWanted).foreach { block =>
      published.remove(block)
      removals.execute(() => blocks.remove(block.toString))
    }

  override def publishedCount: Int = published.size

  override def pull(
      block: BlockName,
      address: ExecutorAddress,
      deadlineMs: Long
  ): Option[Array[Byte]] = pullAll(Seq(block -> address), deadlineMs).get(block)

  override def pullAll(
      wanted: Seq[(BlockName, ExecutorAddress)],
      deadlineMs: Long
  ): Map[BlockName, Array[Byte]] = {
    val deadline = System.nanoTime + TimeUnit.MILLISECONDS.toNanos(deadlineMs)
    val pulls = wanted.map { case (block, address) =>
      (block, address, threads.submit(() => fetch(block.toString, address)))
    }
    try
      pulls.flatMap { case (block, address, pull) =>
        arrived(block, address, pull, deadline, deadlineMs).map(block -> _)
      }.toMap
    finally pulls.foreach(_._3.cancel(true)) // of those that have ended nothing happens
  }

  private def fetch(name: String, address: ExecutorAddress): Option[Array[Byte]] = {
    faults.at(FaultPoints.BlockPulled)
    if (address == blocks.address) blocks.local(name)
    else if (blocks.isAt(name, address)) Some(blocks.remote(name, address))
    else None
  }

  private def arrived(
      block: BlockName,
      address: ExecutorAddress,
      pull: Future[Option[Array[Byte]]],
      deadline: Long,
      deadlineMs: Long
  ): Option[Array[Byte]] =
    try pull.get(math.max(0, deadline - System.nanoTime), TimeUnit.NANOSECONDS)
    catch {
      case _: TimeoutException =>
        logInfo(
          s"Block $block did not arrive from $address within $deadlineMs ms; the checkpoint is " +
            "read instead."
        )
        None
      case e: InterruptedException => throw e
      case NonFatal(e) =>
        logInfo(
          s"Block $block could not be pulled from $address (${Option(e.getCause).getOrElse(e)}); " +
            "the checkpoint is read instead."
        )
        None
    }
}
