// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import io.megaphone.errors.DamagedFileException

/** Compresses the chunks of a file; its `id` is written in the file, so that any reader finds the
  * right one. Implementations are stateless and used by several threads.
  */
trait Compression {

  /** 0 to 255; 0 is [[Compression.None]]. */
  def id: Int

  /** The first `length` of `bytes`, compressed, in an array of its own. */
  def compress(bytes: Array[Byte], length: Int): Array[Byte]

  /** Throws any exception where the bytes cannot be decompressed to `rawBytes` bytes. */
  def decompress(bytes: Array[Byte], rawBytes: Int): Array[Byte]
}

object Compression {
  object None extends Compression {
    val id = 0
    def compress(bytes: Array[Byte], length: Int): Array[Byte] =
      java.util.Arrays.copyOf(bytes, length)
    def decompress(bytes: Array[Byte], rawBytes: Int): Array[Byte] = bytes
  }
}

/** The compressions a reader knows, and the one a writer uses. */
final case class Compressions(writer: Compression, others: Compression*) {
  private val all = (writer +: Compression.None +: others).map(c => c.id -> c).toMap
  def apply(file: String, id: Int): Compression =
    all.getOrElse(
      id,
      throw new DamagedFileException(
        file,
        Option.empty,
        s"a compression among ${all.keys.toSeq.sorted.mkString(", ")}",
        id.toString
      )
    )
}
