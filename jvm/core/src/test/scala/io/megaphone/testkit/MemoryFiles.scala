// SPDX-License-Identifier: Apache-2.0
package io.megaphone.testkit

import java.io.ByteArrayOutputStream

import scala.collection.mutable

import io.megaphone.checkpoint.{AtomicOutput, StateFiles, SweptFiles}
import io.megaphone.errors.MissingFileException
import io.megaphone.format.{BytesSource, FileName, FileSource}

/** The files of one store, in memory. Tests override `appear` and `open` for what goes wrong.
  *
  * Threads: any.
  *
  * @param folder
  *   what stands before the names of files in messages
  */
class MemoryFiles(folder: String = "") extends StateFiles with SweptFiles {
  private val files = mutable.HashMap.empty[FileName, Array[Byte]]

  override def listed: Vector[FileName] = files.synchronized(files.keysIterator.toVector)
  override def delete(file: FileName): Unit = { files.synchronized(files.remove(file)); () }
  override def deleteUnfinished(before: Long): Unit = ()

  override def create(file: FileName): AtomicOutput = new AtomicOutput {
    private val out = new ByteArrayOutputStream(512)
    private var isClosed = false
    override def write(b: Int): Unit = out.write(b)
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      out.write(bytes, offset, length)
    override def close(): Unit = if (!isClosed) {
      isClosed = true
      appear(file, out.toByteArray)
    }
    override def cancel(): Unit = isClosed = true
  }

  override def open(file: FileName): FileSource = {
    val bytes = files.synchronized(files.get(file))
    new BytesSource(nameOf(file), bytes.getOrElse(throw new MissingFileException(nameOf(file))))
  }

  /** Makes a file appear that was closed and not cancelled before. */
  protected def appear(file: FileName, bytes: Array[Byte]): Unit =
    files.synchronized(files(file) = bytes)

  /** The whole name of a file, as messages have it. */
  final protected def nameOf(file: FileName): String =
    if (folder.isEmpty) file.toString else s"$folder/$file"
}
