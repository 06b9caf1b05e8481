// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import java.io.{IOException, RandomAccessFile}
import java.lang.ref.Cleaner
import java.nio.MappedByteBuffer
import java.nio.channels.{ClosedByInterruptException, FileChannel}
import java.nio.file.{Files, Path}
import java.util.UUID
import java.util.concurrent.atomic.AtomicLong

import scala.annotation.tailrec

import io.megaphone.errors.MegaphoneError

/** Spilled pages of logs, in memory-mapped files under one of some folders.
  *
  *   1. A file is written sequentially through the file system, so that a full disk is an error and
  *      not a crash. It is read through its mapping.
  *   1. A file's name is deleted as soon as the file is mapped, so the disk space is freed however
  *      the process ends.
  *   1. A spilled page lives as long as something refers to it, and a file as long as one of its
  *      pages. A page of a file with few live pages left `isThin`: its owner rewrites it elsewhere
  *      at its next commit.
  *
  * Threads: any.
  *
  * @param collectGarbage
  *   returns once objects that nothing refers to are gone
  */
final class SpillFiles(
    folders: Seq[Path],
    fileBytes: Int = 64 << 20,
    collectGarbage: () => Unit = () => System.gc()
) {
  import SpillFiles._

  /** Its thread ends after the last page: one for all would keep the class loader of a plugin that
    * was unloaded.
    */
  private lazy val cleaner = Cleaner.create()
  private val live = new AtomicLong
  private val written = ThreadLocal.withInitial[AtomicLong](() => new AtomicLong)
  private var current: SpillFile = _
  private var folder = 0
  private val collectedNanos = new AtomicLong(System.nanoTime - CollectNanosMin - 1)
  private val collecting = new Object

  /** Bytes of the spilled pages that are not yet collected. */
  def liveBytes: Long = live.get

  /** Returns what tells how many bytes the calling thread has written. Any thread may ask it. */
  def writtenHere: () => Long = {
    val mine = written.get
    () => mine.get
  }

  /** Writes a page, to the next folder if writing to the current one fails. Throws SpillException
    * if all fail or there is none, and ClosedByInterruptException if an interrupted thread has to
    * open a file.
    *
    * Pages that are no longer referred to may fill the disk: they are collected then, and all is
    * tried again. That may take long, and who still has room does not wait for it.
    */
  private[log] def write(page: Array[Byte]): SpilledPage = {
    if (folders.isEmpty)
      throw new SpillException(
        "State beyond what may be kept in memory could not be written to disk: the executor has " +
          "no local folder. Give the executor local disk, or its state more memory.",
        null
      )
    val first = appended(page, folders.size)
    val last = if (first.isRight) first else { collect(); appended(page, folders.size) }
    last.fold(
      failed =>
        throw new SpillException(
          "State beyond what may be kept in memory could not be written to " +
            s"${folders.mkString(", ")}: ${failed.getMessage}. " +
            "Give the executor more local disk, or its state more memory.",
          failed
        ),
      identity
    )
  }

  /** Writes a page to the first of the next folders that takes it; returns why the last one does
    * not.
    */
  @tailrec
  private def appended(page: Array[Byte], folders: Int): Either[IOException, SpilledPage] = {
    val outcome = synchronized {
      try Right(append(page))
      catch {
        case e: ClosedByInterruptException => throw e
        case e: IOException => leave(); Left(e)
      }
    }
    if (outcome.isRight || folders == 1) outcome else appended(page, folders - 1)
  }

  private def append(page: Array[Byte]): SpilledPage =
    if (page.length > fileBytes / LargeShare) {
      val own = new SpillFile(folders(folder), page.length)
      try register(own, own.append(page))
      finally own.close()
    } else {
      if (current != null && current.size - current.end < page.length) {
        current.close()
        current = null
      }
      if (current == null) current = new SpillFile(folders(folder), fileBytes)
      register(current, current.append(page))
    }

  private def register(file: SpillFile, spilled: SpilledPage): SpilledPage = {
    val length = spilled.length.toLong
    live.addAndGet(length)
    written.get.addAndGet(length)
    // Not the file: it would then live until the next collection, and its bytes on the disk.
    val liveOfFile = file.live
    cleaner.register(
      spilled,
      () => {
        live.addAndGet(-length)
        liveOfFile.addAndGet(-length)
        ()
      }
    )
    spilled
  }

  /** Continues in the next folder. */
  private def leave(): Unit = {
    if (current != null) current.close()
    current = null
    folder = (folder + 1) % folders.size
  }

  /** Many pages are not referred to any more: if the disk is full, they are collected, however
    * short ago that was done.
    */
  private[log] def collectAgain(): Unit =
    collectedNanos.set(System.nanoTime - CollectNanosMin - 1)

  /** One thread collects for all that have no room: they wait for it. */
  private def collect(): Unit = collecting.synchronized {
    val last = collectedNanos.get
    if (System.nanoTime - last > CollectNanosMin) {
      collectGarbage()
      collectedNanos.compareAndSet(last, System.nanoTime) // or more is to be collected since
      ()
    }
  }
}

private[log] object SpillFiles {
  private val ThinShare = 4
  private val LargeShare = 4 // a page larger than a quarter of a file has its own file
  private val CollectNanosMin = 10L * 1000 * 1000 * 1000

  /** A page on disk. Immutable. Threads: any. */
  final class SpilledPage(file: SpillFile, offset: Int, val length: Int) {
    def read(from: Int, count: Int): Array[Byte] = {
      val bytes = new Array[Byte](count)
      file.bytes.get(offset + from, bytes, 0, count)
      bytes
    }
    def word(at: Int): Long = file.bytes.getLong(offset + at)

    /** Whether its file is full and less than a quarter of the file's bytes are live. */
    def isThin: Boolean = file.isFull && file.live.get < file.end / ThinShare
  }

  /** A file. Its mapping is freed once no page refers to it. */
  final class SpillFile(folder: Path, val size: Int) {
    private val path = folder.resolve(s"megaphone-${UUID.randomUUID}.pages")
    // Not a channel: interrupting a task would break its write, and close the file for all others.
    private val file = new RandomAccessFile(path.toFile, "rw")
    val bytes: MappedByteBuffer =
      try {
        val mapped = file.getChannel.map(FileChannel.MapMode.READ_ONLY, 0, size.toLong)
        Files.delete(path)
        mapped
      } catch {
        case e: Throwable =>
          file.close()
          Files.deleteIfExists(path)
          throw e
      }
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
      catch { case _: IOException => () } // the mapping stays valid
    }
  }
}

/** Thrown if pages had to leave memory and could not be written to disk. */
final class SpillException(message: String, cause: Throwable)
    extends RuntimeException(message, cause)
    with MegaphoneError {
  override def condition: String = "SPILL_NOT_WRITTEN"
}
