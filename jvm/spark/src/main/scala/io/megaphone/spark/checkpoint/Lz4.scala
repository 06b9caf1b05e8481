// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import net.jpountz.lz4.LZ4Factory

import io.megaphone.format.{Compression, Compressions}

/** Compresses LZ4 blocks with the library that Spark's own LZ4 codec uses. */
object Lz4 extends Compression {
  private val factory = LZ4Factory.fastestInstance()
  private val RatioMax = 255L // each byte of a length says so many more

  val id = 1
  override def compress(bytes: Array[Byte], length: Int): Array[Byte] =
    factory.fastCompressor().compress(bytes, 0, length)
  override def decompress(bytes: Array[Byte], rawBytes: Int): Array[Byte] = {
    if (rawBytes > bytes.length * RatioMax) // and may be more than the heap has
      throw new IllegalArgumentException(s"${bytes.length} bytes never become $rawBytes")
    val out = new Array[Byte](rawBytes)
    val read = factory.safeDecompressor().decompress(bytes, 0, bytes.length, out, 0)
    if (read == rawBytes) out
    else throw new IllegalArgumentException(s"$read bytes instead of $rawBytes")
  }

  /** The compressions that this release writes and reads. */
  val All: Compressions = Compressions(this)
}
