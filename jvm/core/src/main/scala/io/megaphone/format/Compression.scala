// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import io.megaphone.errors.DamagedFileException

/** Compresses the chunks of a file. The file holds the `id`, by which a reader finds the right
  * compression.
  *
  * Threads: any. Implementations are stateless.
  */
trait Compression {

  /** From 0 to 255; 0 is [[Compression.None]]. */
  def id: Int

  /** Returns the first `length` of `bytes`, compressed, in a new array. */
  def compress(bytes: Array[Byte], length: Int): Array[Byte]

  /** Returns the `rawBytes` bytes that were compressed. May throw any exception if `bytes` are
    * damaged.
    */
  def decompress(bytes: Array[Byte], rawBytes: Int): Array[Byte]
}

object Compression {
  object None extends Compression {
    val id = 0
    def compress(bytes: Array[Byte], length: Int): Array[Byte] =
      java.util.Arrays.copyOf(bytes, length)
    def decompress(bytes: Array[Byte], rawBytes: Int): Array[Byte] = bytes
  }

  /** The `rawBytes` bytes that were compressed. Throws DamagedFileException, which names the file
    * and the bin, if these are not what comes of `stored`.
    */
  def unpacked(
      compression: Compression,
      stored: Array[Byte],
      rawBytes: Int,
      file: String,
      bin: Option[Int] = Option.empty
  ): Array[Byte] = {
    def fail(found: String) =
      throw new DamagedFileException(file, bin, s"$rawBytes bytes of records", found)
    val raw =
      try compression.decompress(stored, rawBytes)
      catch { case e: Exception => fail(s"bytes that do not decompress ($e)") }
    if (raw.length == rawBytes) raw else fail(s"${raw.length}")
  }
}

/** The compression that a writer uses, and all that a reader knows. */
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
