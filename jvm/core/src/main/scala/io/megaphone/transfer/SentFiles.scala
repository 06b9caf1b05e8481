// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.io.ByteArrayOutputStream

import io.megaphone.checkpoint.{AtomicOutput, StateFiles}
import io.megaphone.format.{FileName, FileSource, StateName}

/** The files of a worker whose commits are sent to its standbys: see [[PushedFiles]]. */
object SentFiles {

  /** What is larger is read from the checkpoint. */
  val FileBytesMax: Int = 8 << 20

  /** The files of a store. Those that are written are given to `push` as well, once they are
    * durable.
    */
  def apply(files: StateFiles)(push: (FileName, Array[Byte]) => Unit): StateFiles =
    new StateFiles {
      override def create(file: FileName): AtomicOutput =
        if (file.name.id == StateName.FixedId) files.create(file)
        else new Tee(files.create(file), push(file, _))
      override def open(file: FileName): FileSource = files.open(file)
    }

  /** Threads: one. */
  private final class Tee(out: AtomicOutput, written: Array[Byte] => Unit) extends AtomicOutput {
    private var copy = Option(new ByteArrayOutputStream)

    override def write(byte: Int): Unit = {
      out.write(byte)
      copied(1)(_.write(byte))
    }
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      out.write(bytes, offset, length)
      copied(length)(_.write(bytes, offset, length))
    }
    override def flush(): Unit = out.flush()
    override def cancel(): Unit = { copy = None; out.cancel() }
    override def close(): Unit = {
      out.close()
      copy.foreach(bytes => written(bytes.toByteArray))
      copy = None
    }

    private def copied(length: Int)(write: ByteArrayOutputStream => Unit): Unit =
      copy.foreach { bytes =>
        if (bytes.size + length > FileBytesMax) copy = None else write(bytes)
      }
  }
}
