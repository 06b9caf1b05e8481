// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import java.io.IOException
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import scala.collection.concurrent.TrieMap

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{DeltaFile, FileName, FileSource, Footer}

/** The files of one recovery. Each is opened when it is asked for first, and stays open from its
  * footer to its frames: an object store takes two requests to open a file, and more to read its
  * footer again. Only threads that read one file at the same time have a source each, because a
  * source reads one thing at a time.
  *
  * Threads: any. A thread that is still at work when all are closed, because the recovery was
  * interrupted, opens nothing more: it gets an IOException.
  */
private[checkpoint] final class OpenFiles(files: StateFiles) extends AutoCloseable {
  private val all = TrieMap.empty[FileName, OpenFile]
  @volatile private var isClosed = false

  /** The footer of a file. Throws MissingFileException or DamagedFileException. */
  def footer(file: FileName): Footer = of(file).footer

  /** Says which files will be read, one entry for each use. The others are closed. */
  def keep(uses: Iterable[FileName]): Unit = {
    val counts = uses.groupMapReduce(identity)(_ => 1)(_ + _)
    all.keys.filterNot(counts.contains).foreach(end)
    counts.foreach { case (file, count) => of(file).uses.set(count) }
  }

  /** Reads a file. It is closed after the last of the uses that `keep` was told of. Throws
    * MissingFileException or DamagedFileException.
    */
  def read[A](file: FileName)(use: DeltaFile.Reader => A): A = {
    val open = of(file)
    try open.read(use)
    finally if (open.uses.decrementAndGet() == 0) end(file)
  }

  override def close(): Unit = {
    isClosed = true
    all.keys.foreach(end)
  }

  private def of(file: FileName): OpenFile = all.getOrElseUpdate(file, new OpenFile(file))
  private def end(file: FileName): Unit = all.remove(file).foreach(_.close())

  private final class OpenFile(file: FileName) {
    @volatile private var opened: Option[FileSource] = None
    private val isRead = new AtomicBoolean
    val uses = new AtomicInteger

    private lazy val source: FileSource = {
      val made = files.open(file)
      opened = Some(made)
      if (isClosed) {
        made.close()
        throw new IOException(s"The recovery that reads ${made.name} has ended.")
      }
      made
    }
    private lazy val reader = new DeltaFile.Reader(source)

    def footer: Footer = {
      val found = reader.footer
      if (found.file != file)
        throw new DamagedFileException(
          source.name,
          None,
          s"the state of worker ${file.worker} at ${file.name}",
          s"that of worker ${found.file.worker} at ${found.file.name}"
        )
      found
    }

    def read[A](use: DeltaFile.Reader => A): A =
      if (isRead.compareAndSet(false, true))
        try use(reader)
        finally isRead.set(false)
      else {
        val other = files.open(file)
        try use(new DeltaFile.Reader(other))
        finally other.close()
      }

    def close(): Unit = opened.foreach(_.close())
  }
}
