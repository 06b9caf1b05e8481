// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.ByteBuffer

import org.apache.spark.SparkEnv
import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.storage.{BlockId, BlockManagerId, StorageLevel, TestBlockId}
import org.apache.spark.util.io.ChunkedByteBuffer

import io.megaphone.format.ExecutorAddress

/** Stores bytes under names of our own in Spark's block manager.
  *
  * Private to Spark (4.2, 4.3): `TestBlockId`, `ChunkedByteBuffer`.
  *
  * `TestBlockId` is the only block id of Spark with a free name that another executor can parse.
  * Blocks are stored as `MEMORY_AND_DISK_SER` and reported to the driver, so that `isAt` can ask
  * the driver. Asking an executor for a block that it does not have would log errors with stack
  * traces at both ends.
  *
  * Threads: any.
  */
final class BlockStore(env: SparkEnv) {

  /** The address from which other executors get this executor's blocks. */
  def address: ExecutorAddress = BlockStore.addressOf(env.blockManager.blockManagerId)

  def put(name: String, bytes: Array[Byte]): Unit = {
    env.blockManager.putBytes(
      id(name),
      new ChunkedByteBuffer(ByteBuffer.wrap(bytes)),
      StorageLevel.MEMORY_AND_DISK_SER,
      tellMaster = true
    )
    ()
  }

  def remove(name: String): Unit = env.blockManager.removeBlock(id(name), tellMaster = true)

  /** A block of this executor; None if it does not have it. */
  def local(name: String): Option[Array[Byte]] =
    env.blockManager.getLocalBytes(id(name)).map { data =>
      try bytesOf(data.toByteBuffer())
      finally {
        env.blockManager.releaseLock(id(name))
        data.dispose()
      }
    }

  /** Whether the executor at `address` has reported the block to the driver. */
  def isAt(name: String, address: ExecutorAddress): Boolean =
    env.blockManager.master.getLocations(id(name)).exists(BlockStore.addressOf(_) == address)

  /** Fetches a block of another executor. Throws what Spark's block transfer throws. */
  def remote(name: String, address: ExecutorAddress): Array[Byte] = {
    val buffer: ManagedBuffer = env.blockManager.blockTransferService.fetchBlockSync(
      address.host,
      address.port,
      address.id,
      id(name).name,
      null
    )
    try bytesOf(buffer.nioByteBuffer())
    finally {
      buffer.release()
      ()
    }
  }

  private def bytesOf(buffer: ByteBuffer): Array[Byte] = {
    val bytes = new Array[Byte](buffer.remaining)
    buffer.get(bytes)
    bytes
  }
  private def id(name: String): BlockId = TestBlockId(name)
}

object BlockStore {
  private[megaphone] def addressOf(id: BlockManagerId): ExecutorAddress =
    ExecutorAddress(id.executorId, id.host, id.port)
}
