// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.ByteBuffer

import org.apache.spark.SparkEnv
import org.apache.spark.network.buffer.ManagedBuffer
import org.apache.spark.storage.{BlockId, BlockManagerId, StorageLevel, TestBlockId}
import org.apache.spark.util.io.ChunkedByteBuffer

import io.megaphone.format.ExecutorAddress

/** Bytes under free names in Spark's block manager. Its class, `TestBlockId` and
  * `ChunkedByteBuffer` are private to Spark (4.2, 4.3).
  *
  * `TestBlockId` is the one block id of Spark's whose name is free and that another executor can
  * parse back. Blocks are put `MEMORY_AND_DISK_SER`. The driver is told of each, so that `isAt` can
  * ask it: to ask an executor for a block that it does not have logs errors with stack traces at
  * both ends. Any thread.
  */
final class BlockStore(env: SparkEnv) {

  /** Where other executors get this one's blocks. */
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

  /** A block of this executor. */
  def local(name: String): Option[Array[Byte]] =
    env.blockManager.getLocalBytes(id(name)).map { data =>
      try bytesOf(data.toByteBuffer())
      finally { env.blockManager.releaseLock(id(name)); data.dispose() }
    }

  /** Whether an executor has told the driver of the block. */
  def isAt(name: String, address: ExecutorAddress): Boolean =
    env.blockManager.master.getLocations(id(name)).exists(BlockStore.addressOf(_) == address)

  /** A block of another executor. Throws what Spark's block transfer throws. */
  def remote(name: String, address: ExecutorAddress): Array[Byte] = {
    val buffer: ManagedBuffer = env.blockManager.blockTransferService.fetchBlockSync(
      address.host,
      address.port,
      address.id,
      id(name).name,
      null
    )
    try bytesOf(buffer.nioByteBuffer())
    finally { buffer.release(); () }
  }

  private def bytesOf(buffer: ByteBuffer): Array[Byte] = {
    val bytes = new Array[Byte](buffer.remaining); buffer.get(bytes); bytes
  }
  private def id(name: String): BlockId = TestBlockId(name)
}

object BlockStore {
  private[megaphone] def addressOf(id: BlockManagerId): ExecutorAddress =
    ExecutorAddress(id.executorId, id.host, id.port)
}
