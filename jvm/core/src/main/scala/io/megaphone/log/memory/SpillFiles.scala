// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import java.io.{IOException, RandomAccessFile}
import java.lang.ref.Cleaner
import java.nio.MappedByteBuffer
import java.nio.channels.{ClosedByInterruptException, FileChannel}
import java.nio.file.{Files, Path}
import java.util.UUID
import java.util.concurrent.atomic.AtomicLong

/** Pages of logs in memory-mapped files under some folders, one folder after the other.
  *
  *   1. A file is written from its beginning to its end, through the file system, so that a full
  *      disk is an error and not a crash, and read where it is mapped.
  *   1. It has no name any more from the moment on when it is mapped: whatever becomes of the
  *      process, the disk is free then.
  *   1. A spilled lives as long as anyone refers to it, and a file as long as one of its spilled
  *      pages does. One that has few of them left is `isThin`: when their owner commits next, it
  *      writes those anew, elsewhere.
  *
  * Any thread.
  */
final class SpillFiles(folders: Seq[Path], fileBytes: Int = 64 << 20) {
  import SpillFiles._

  private val live = new AtomicLong
  private var current: SpillFile = _
  private var folder = 0
  private var collectedNanos = System.nanoTime - CollectNanosMin - 1

  /** Bytes of spilled pages that are referred to. */
  def liveBytes: Long = live.get

  /** Writes a page; to the next folder where one is full. Throws SpillException, or, in a thread
    * that is interrupted, ClosedByInterruptException.
    */
  private[log] def write(page: Array[Byte]): SpilledPage = synchronized {
    var failed: IOException = null
    var tries = 0
    while (tries <= folders.size) {
      try return append(page)
      catch {
        case e: ClosedByInterruptException => throw e
        case e: IOException => failed = e; leave()
      }
      tries += 1
      if (tries == folders.size)
        collect() // what nobody refers to any more may be all that is in the way
    }
    throw new SpillException(
      s"State beyond what may be kept in memory could not be written to ${folders.mkString(", ")}: ${failed.getMessage}. " +
        "Give the executor more local disk, or its state more memory.",
      failed
    )
  }

  private def append(page: Array[Byte]): SpilledPage =
    if (page.length > fileBytes / LargeShare) {
      val own = new SpillFile(folders(folder), page.length)
      try register(own, own.append(page))
      finally own.close()
    } else {
      if (current != null && current.size - current.end < page.length) {
        current.close(); current = null
      }
      if (current == null) current = new SpillFile(folders(folder), fileBytes)
      register(current, current.append(page))
    }

  private def register(file: SpillFile, spilled: SpilledPage): SpilledPage = {
    val length = spilled.length.toLong
    live.addAndGet(length)
    cleaner.register(spilled, () => { live.addAndGet(-length); file.live.addAndGet(-length); () })
    spilled
  }

  private def leave(): Unit = {
    if (current != null) current.close()
    current = null
    folder = (folder + 1) % folders.size
  }

  private def collect(): Unit =
    if (System.nanoTime - collectedNanos > CollectNanosMin) {
      System.gc()
      collectedNanos = System.nanoTime
    }
}

private[log] object SpillFiles {
  private val cleaner = Cleaner.create()
  private val ThinShare = 4
  private val LargeShare = 4 // of a file, from which on a page has one to itself
  private val CollectNanosMin = 10L * 1000 * 1000 * 1000

  /** A page that lies on disk. Immutable; any thread. */
  final class SpilledPage(file: SpillFile, offset: Int, val length: Int) {
    def read(from: Int, count: Int): Array[Byte] = {
      val bytes = new Array[Byte](count)
      file.bytes.get(offset + from, bytes, 0, count)
      bytes
    }
    def word(at: Int): Long = file.bytes.getLong(offset + at)

    /** Whether little else is left in its file. */
    def isThin: Boolean = file.isFull && file.live.get < file.end / ThinShare
  }

  /** A file. Its mapping goes when nobody refers to it any more. */
  final class SpillFile(folder: Path, val size: Int) {
    private val path = folder.resolve(s"megaphone-${UUID.randomUUID}.pages")
    private val file = new RandomAccessFile(
      path.toFile,
      "rw"
    ) // whose writes no interrupt of a task ends, nor closes for all others
    val bytes: MappedByteBuffer =
      try {
        val mapped = file.getChannel.map(FileChannel.MapMode.READ_ONLY, 0, size.toLong);
        Files.delete(path); mapped
      } catch { case e: Throwable => file.close(); Files.deleteIfExists(path); throw e }
    bytes.order(java.nio.ByteOrder.LITTLE_ENDIAN)
    val live = new AtomicLong
    @volatile var end = 0
    @volatile var isFull = false

    def append(page: Array[Byte]): SpilledPage = {
      file.seek(end.toLong)
      file.write(page)
      val spilled = new SpilledPage(this, end, page.length)
      end += page.length
      live.addAndGet(page.length.toLong)
      spilled
    }

    def close(): Unit = {
      isFull = true
      try file.close()
      catch { case _: IOException => () } // what is mapped stays so
    }
  }
}

/** Pages that had to leave memory and found no place on disk. */
final class SpillException(message: String, cause: Throwable)
    extends RuntimeException(message, cause)
