// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import java.io.OutputStream

import io.megaphone.format.{FileName, FileSource}

/** The files of one store of one operator, in the checkpoint.
  *
  * Threads: any.
  */
trait StateFiles {

  /** Starts a file. It appears, complete and durable, when the stream is closed; not at all if the
    * stream is cancelled. It replaces a file of the same name.
    */
  def create(file: FileName): AtomicOutput

  /** Opens a file. Throws [[io.megaphone.errors.MissingFileException]] if it does not exist. */
  def open(file: FileName): FileSource
}

/** A file that is being written.
  *
  * Threads: one.
  */
abstract class AtomicOutput extends OutputStream {

  /** Abandons the file. Nothing happens after `close`. */
  def cancel(): Unit
}
