// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import java.nio.ByteBuffer

import io.megaphone.errors.InvalidPlanException

/** A routing table as bytes, big endian: format version (1 byte), table number (8), log2 of the
  * bins (1), workers - 1 (2), then one worker number a bin, each in as few bits as the largest
  * needs, the last byte filled up with zeros.
  *
  * 1,024 bins take 396 bytes with 8 workers and 1 KB with 200; 65,536 bins take 74 KB with 512
  * workers, however they lie. Each table has exactly one encoding. What damage leaves readable is
  * left for the caller's checksum to detect.
  */
private[plan] object RoutingTableFormat {
  private val FormatVersion: Byte = 1
  private val HeaderBytes = 12

  def encode(table: RoutingTable): Array[Byte] = {
    val buffer = ByteBuffer.allocate(encodedBytes(table.bins, table.workers))
    buffer.put(FormatVersion).putLong(table.number)
    buffer
      .put(Integer.numberOfTrailingZeros(table.bins).toByte)
      .putShort((table.workers - 1).toShort)

    val width = bitsPerWorker(table.workers)
    var pending = 0L // its low `pendingBits` bits are not written yet
    var pendingBits = 0
    for (bin <- 0 until table.bins) {
      pending = pending << width | table.workerOf(bin).toLong
      pendingBits += width
      while (pendingBits >= 8) {
        pendingBits -= 8
        buffer.put((pending >>> pendingBits).toByte)
      }
    }
    if (pendingBits > 0) buffer.put((pending << (8 - pendingBits)).toByte)
    buffer.array
  }

  def decode(bytes: Array[Byte]): RoutingTable = {
    if (bytes.length < HeaderBytes)
      damaged(s"it has ${bytes.length} bytes where $HeaderBytes are the least")
    val buffer = ByteBuffer.wrap(bytes)
    val version = buffer.get()
    if (version != FormatVersion)
      damaged(s"its format is version $version where $FormatVersion is known")
    val number = buffer.getLong()
    val log2Bins = buffer.get()
    if (log2Bins < 0 || log2Bins > 16) damaged(s"it has 2^$log2Bins bins where 2^16 are the most")
    val bins = 1 << log2Bins
    val workers = java.lang.Short.toUnsignedInt(buffer.getShort()) + 1
    val expected = encodedBytes(bins, workers)
    if (bytes.length != expected) damaged(s"it has ${bytes.length} bytes where $expected belong")

    val width = bitsPerWorker(workers)
    var pending = 0L // its low `pendingBits` bits are not read yet
    var pendingBits = 0
    val owners = Array.tabulate(bins) { bin =>
      while (pendingBits < width) {
        pending = pending << 8 | java.lang.Byte.toUnsignedLong(buffer.get())
        pendingBits += 8
      }
      pendingBits -= width
      val owner = (pending >>> pendingBits & ((1L << width) - 1)).toInt
      if (owner >= workers)
        damaged(s"bin $bin belongs to worker $owner where ${workers - 1} is the last")
      owner.toChar
    }
    if ((pending & ((1L << pendingBits) - 1)) != 0)
      damaged("its last byte is not filled up with zeros")
    new RoutingTable(number, workers, owners)
  }

  private def bitsPerWorker(workers: Int): Int = 32 - Integer.numberOfLeadingZeros(workers - 1)

  private def encodedBytes(bins: Int, workers: Int): Int =
    HeaderBytes + (bins * bitsPerWorker(workers) + 7) / 8

  private def damaged(reason: String): Nothing = throw new InvalidPlanException.DamagedTable(reason)
}
