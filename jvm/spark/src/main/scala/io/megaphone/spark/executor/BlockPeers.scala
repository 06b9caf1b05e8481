// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{
  ConcurrentHashMap, ExecutionException, Executor, ExecutorService, TimeoutException, TimeUnit
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
  ): Option[Array[Byte]] = {
    val name = block.toString
    val task = threads.submit { () =>
      faults.at(FaultPoints.BlockPulled)
      if (address == blocks.address) blocks.local(name)
      else if (blocks.isAt(name, address)) Some(blocks.remote(name, address))
      else None
    }
    try task.get(deadlineMs, TimeUnit.MILLISECONDS)
    catch {
      case _: TimeoutException =>
        task.cancel(true)
        logInfo(
          s"Block $block did not arrive from $address within $deadlineMs ms; the checkpoint is " +
            "read instead."
        )
        None
      case e: ExecutionException =>
        logInfo(
          s"Block $block could not be pulled from $address (${e.getCause}); the checkpoint is " +
            "read instead."
        )
        None
      case e: InterruptedException =>
        task.cancel(true)
        throw e
      case NonFatal(e) =>
        logInfo(
          s"Block $block could not be pulled from $address ($e); the checkpoint is read instead."
        )
        None
    }
  }
}
