// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.ByteBuffer

import org.apache.spark.SparkEnv
import org.apache.spark.storage.{BlockId, StorageLevel, TestBlockId}
import org.apache.spark.util.io.ChunkedByteBuffer

/** Stores bytes under names of our own in this executor's block manager.
  *
  * Private to Spark (4.2, 4.3): `TestBlockId`, `ChunkedByteBuffer`.
  *
  * `TestBlockId` is the only block id of Spark with a free name. The driver is not told of blocks:
  * it would have a message and a listener event for each, and other executors do not ask it for
  * them.
  *
  * Small blocks are stored as `MEMORY_AND_DISK_SER`, large ones on disk alone: an image of
  * gibibytes, which is read once, would push out what users cache, and take the rest of a heap that
  * state has its share of.
  *
  * Threads: any.
  */
class BlockStore(env: SparkEnv) {

  /** Stores bytes. Called twice: nothing happens. Throws what the block manager throws.
    *
    * @param isOfLarge
    *   whether they are a part of something large, however few they are
    */
  def put(name: String, bytes: Array[Byte], isOfLarge: Boolean): Unit = {
    val isLarge = isOfLarge || bytes.length > BlockStore.MemoryBytesMax
    env.blockManager.putBytes(
      id(name),
      new ChunkedByteBuffer(ByteBuffer.wrap(bytes)),
      if (isLarge) StorageLevel.DISK_ONLY else StorageLevel.MEMORY_AND_DISK_SER,
      tellMaster = false
    )
    ()
  }

  /** Removes a block. Waits for those that read it. */
  def remove(name: String): Unit = env.blockManager.removeBlock(id(name), tellMaster = false)

  /** A copy of a block; None if it is not here. */
  def get(name: String): Option[Array[Byte]] =
    env.blockManager.getLocalBytes(id(name)).map { data =>
      try {
        // A buffer of a large file would be mapped, and stay so until the next collection.
        val in = data.toInputStream()
        try in.readNBytes(data.size.toInt)
        finally in.close()
      } finally {
        env.blockManager.releaseLock(id(name))
        data.dispose()
      }
    }

  private def id(name: String): BlockId = TestBlockId(name)
}

object BlockStore {
  private[megaphone] val MemoryBytesMax = 1 << 20
}
