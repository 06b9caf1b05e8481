// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.ByteBuffer
import java.util.concurrent.{ConcurrentHashMap, ExecutionException, ExecutorService, TimeUnit, TimeoutException}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.storage.{BlockId, BlockManagerId, StorageLevel, TestBlockId}
import org.apache.spark.util.io.ChunkedByteBuffer

import io.megaphone.store.{BlockName, Peers}
import io.megaphone.transfer.FaultPoints

/** The memory of other executors, through Spark's block manager: authentication and encryption are as configured for Spark.
  *
  * Blocks are put `MEMORY_AND_DISK_SER`, so that memory pressure slows a move down and fails nothing. The driver is told of them, and asked before a
  * pull: to ask an executor for a block that it does not have logs errors with stack traces at both ends. `TestBlockId` is the one block id of Spark's
  * whose name is free and that another executor can parse back.
  *
  * @param threads
  *   run the pulls, so that each has a deadline of its own rather than Spark's network time-out
  */
final class BlockPeers(env: SparkEnv, threads: ExecutorService) extends Peers with Logging {
  private val published = ConcurrentHashMap.newKeySet[BlockName]()

  /** This executor's address, as `pull` takes it. */
  def address: String = { val id = env.blockManager.blockManagerId; BlockPeers.address(id) }

  /** Makes a block available to other executors; a second time, nothing happens. */
  def publish(block: BlockName, bytes: Array[Byte]): Unit =
    if (published.add(block))
      FaultPoints
        .published(bytes)
        .foreach(b => env.blockManager.putBytes(id(block), new ChunkedByteBuffer(ByteBuffer.wrap(b)), StorageLevel.MEMORY_AND_DISK_SER, tellMaster = true))

  /** Removes the blocks of all steps but these. */
  def keep(isWanted: BlockName => Boolean): Unit =
    published.asScala.filterNot(isWanted).foreach { block => published.remove(block); env.blockManager.removeBlock(id(block), tellMaster = true) }

  def publishedCount: Int = published.size

  override def pull(block: BlockName, address: String, deadlineMs: Long): Option[Array[Byte]] = {
    val task = threads.submit { () =>
      FaultPoints.at(FaultPoints.BlockPulled); if (address == this.address) local(block) else if (isAt(block, address)) Some(remote(block, address)) else None
    }
    try task.get(deadlineMs, TimeUnit.MILLISECONDS)
    catch {
      case _: TimeoutException =>
        task.cancel(true); logInfo(s"Block $block did not come from $address within $deadlineMs ms; the checkpoint serves instead."); None
      case e: ExecutionException => logInfo(s"Block $block is not to be had from $address (${e.getCause}); the checkpoint serves instead."); None
      case e: InterruptedException => task.cancel(true); throw e
      case NonFatal(e) => logInfo(s"Block $block could not be pulled from $address ($e); the checkpoint serves instead."); None
    }
  }

  private def local(block: BlockName): Option[Array[Byte]] =
    env.blockManager.getLocalBytes(id(block)).map { data =>
      try data.toByteBuffer() match { case b => val bytes = new Array[Byte](b.remaining); b.get(bytes); bytes }
      finally { env.blockManager.releaseLock(id(block)); data.dispose() }
    }

  private def isAt(block: BlockName, address: String): Boolean = env.blockManager.master.getLocations(id(block)).exists(BlockPeers.address(_) == address)

  private def remote(block: BlockName, address: String): Array[Byte] = {
    val parts = address.split('|')
    val buffer: ManagedBuffer = env.blockManager.blockTransferService.fetchBlockSync(parts(1), parts(2).toInt, parts(0), id(block).name, null)
    try { val b = buffer.nioByteBuffer(); val bytes = new Array[Byte](b.remaining); b.get(bytes); bytes }
    finally { buffer.release(); () }
  }

  private def id(block: BlockName): BlockId = TestBlockId(block.toString)
}

object BlockPeers {

  /** `executor|host|port`. */
  def address(id: BlockManagerId): String = s"${id.executorId}|${id.host}|${id.port}"
}
