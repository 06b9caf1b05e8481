// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.util

import io.megaphone.errors.DamagedFileException

/** Bytes with random access: a file, or a block in memory. */
trait FileSource extends AutoCloseable {

  /** Name for messages. */
  def name: String
  def length: Long

  /** Whether another executor has sent the bytes, so that none come from the checkpoint. */
  def isPushed: Boolean = false

  /** Returns exactly `length` bytes from `position`. Throws IOException or DamagedFileException if
    * they cannot be read.
    */
  def read(position: Long, length: Int): Array[Byte]
}

/** A block in memory. */
final class BytesSource(
    val name: String,
    bytes: Array[Byte],
    override val isPushed: Boolean = false
) extends FileSource {
  def length: Long = bytes.length
  def read(position: Long, count: Int): Array[Byte] = {
    if (position < 0 || count < 0 || position + count > bytes.length)
      throw new DamagedFileException(
        name,
        None,
        s"$count bytes at $position",
        s"${bytes.length} bytes in all"
      )
    util.Arrays.copyOfRange(bytes, position.toInt, position.toInt + count)
  }
  def close(): Unit = ()
}
