// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.io.IOException
import java.lang.ref.Cleaner
import java.nio.{ByteBuffer, MappedByteBuffer}
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path, StandardOpenOption}
import java.util.UUID
import java.util.concurrent.atomic.AtomicLong

/** Pages of logs in memory-mapped files under some folders, one folder after the other.
  *
  *   1. A file is written from its beginning to its end, through the file system, so that a full disk is an error and not a crash, and read where it is
  *      mapped.
  *   1. It has no name any more from the moment on when it is mapped: whatever becomes of the process, the disk is free then.
  *   1. A piece lives as long as anyone refers to it, and a file as long as one of its pieces does. One that has few of them left is `isThin`: their owner
  *      writes those anew, elsewhere.
  *
  * Any thread.
  */
final class Overflow(folders: Seq[Path], fileBytes: Int = 64 << 20) {
  import Overflow._

  private val live = new AtomicLong
  private var current: Segment = _
  private var folder = 0

  /** Bytes of pieces that are referred to. */
  def liveBytes: Long = live.get

  /** Writes the first `length` bytes of a page that has room for `capacity`; to the next folder where one is full. Throws OverflowException. */
  private[log] def write(page: Array[Byte], length: Int, capacity: Int): Piece = synchronized {
    var failed: IOException = null
    var tries = 0
    while (tries < math.max(1, folders.size)) {
      try return append(page, length, capacity)
      catch { case e: IOException => failed = e; leave() }
      tries += 1
    }
    throw new OverflowException(
      s"State beyond what may be kept in memory could not be written to ${folders.mkString(", ")}: ${failed.getMessage}. " +
        "Give the executor more local disk, or its state more memory.",
      failed
    )
  }

  private def append(page: Array[Byte], length: Int, capacity: Int): Piece = {
    if (current != null && current.size - current.end < length) leave()
    if (current == null) current = new Segment(folders(folder), math.max(fileBytes, length))
    val piece = current.append(page, length, capacity)
    val segment = current
    live.addAndGet(length.toLong)
    cleaner.register(piece, () => { live.addAndGet(-length.toLong); segment.live.addAndGet(-length.toLong); () })
    piece
  }

  private def leave(): Unit = {
    if (current != null) current.close()
    current = null
    folder = (folder + 1) % folders.size
  }
}

private[log] object Overflow {
  private val cleaner = Cleaner.create()
  private val ThinShare = 4

  /** A page that lies on disk. Immutable; any thread. */
  final class Piece(segment: Segment, offset: Int, val length: Int, val capacity: Int) {
    def read(from: Int, count: Int): Array[Byte] = {
      val bytes = new Array[Byte](count)
      segment.bytes.get(offset + from, bytes, 0, count)
      bytes
    }
    def word(at: Int): Long = segment.bytes.getLong(offset + at)

    /** Whether little else is left in its file. */
    def isThin: Boolean = segment.isFull && segment.live.get < segment.size / ThinShare
  }

  /** A file. Its mapping goes when nobody refers to it any more. */
  final class Segment(folder: Path, val size: Int) {
    private val path = folder.resolve(s"megaphone-${UUID.randomUUID}.pages")
    private val channel = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE)
    val bytes: MappedByteBuffer =
      try channel.map(FileChannel.MapMode.READ_ONLY, 0, size.toLong)
      catch { case e: Throwable => channel.close(); throw e }
      finally Files.delete(path)
    bytes.order(java.nio.ByteOrder.LITTLE_ENDIAN)
    val live = new AtomicLong
    var end = 0
    @volatile var isFull = false

    def append(page: Array[Byte], length: Int, capacity: Int): Piece = {
      val from = ByteBuffer.wrap(page, 0, length)
      while (from.hasRemaining) channel.write(from, end.toLong + from.position())
      val piece = new Piece(this, end, length, capacity)
      end += length
      live.addAndGet(length.toLong)
      piece
    }

    def close(): Unit = { isFull = true; channel.close() }
  }
}

/** Pages that had to leave memory and found no place on disk. */
final class OverflowException(message: String, cause: Throwable) extends RuntimeException(message, cause)
