// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import java.io.OutputStream

import io.megaphone.format.{FileName, FileSource}

/** The files of one store of one operator, in the checkpoint. Used from several threads. */
trait StateFiles {

  /** Starts a file that appears, whole and durable, when the stream is closed, and not at all if it
    * is cancelled; one that is there is replaced.
    */
  def create(file: FileName): AtomicOutput

  /** Opens a file. Throws [[io.megaphone.format.MissingFileException]] where there is none. */
  def open(file: FileName): FileSource
}

abstract class AtomicOutput extends OutputStream {

  /** Gives the file up. Nothing happens after `close`. */
  def cancel(): Unit
}
