// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import io.megaphone.errors.MegaphoneError
import io.megaphone.log.record.{Record, Words}

/** Stretches of a log, as files, transfers and replicas carry them. They stay valid as long as
  * their log does not undo them.
  *
  * @param bounds
  *   where each begins, and where it ends: from, until, from, until …
  */
final class Records private[log] (pages: Pages, bounds: Array[Int]) {

  /** Bytes of all records. */
  def bytes: Long = {
    var (sum, i) = (0L, 0)
    while (i < bounds.length) {
      sum += pages.bytesOf(bounds(i), bounds(i + 1))
      i += 2
    }
    sum
  }

  /** The same. Throws IllegalArgumentException if they do not fit in one array. */
  def length: Int = {
    val sum = bytes
    require(sum <= Int.MaxValue - 64, s"an array holds at most 2 GiB, these are $sum bytes")
    sum.toInt
  }

  /** See [[io.megaphone.log.BinLog.heapBytesLeftTo]]. */
  private[log] def heapBytesBeside(log: Pages): Long = pages.heapBytesBeside(log)

  /** Calls `f(array, length)` for each piece of whole records, in order. `f` must not keep the
    * array.
    */
  def foreachPiece(maxBytes: Int)(f: (Array[Byte], Int) => Unit): Unit = {
    val pieces = new Pieces(maxBytes, bytes, f)
    foreachStretch(pieces.add(_, _, _))
    pieces.end()
  }

  /** Copies the records to `out` from `offset` on, which must have room for `length`. */
  def copyTo(out: Array[Byte], offset: Int): Unit = {
    var at = offset
    foreachStretch { (page, start, stop) =>
      System.arraycopy(page, start, out, at, stop - start)
      at += stop - start
    }
  }

  def toBytes: Array[Byte] = {
    val out = new Array[Byte](length)
    copyTo(out, 0)
    out
  }

  private def foreachStretch(f: (Array[Byte], Int, Int) => Unit): Unit = {
    var i = 0
    while (i < bounds.length) {
      pages.foreachStretch(bounds(i), bounds(i + 1))(f)
      i += 2
    }
  }
}

object Records {

  /** Copies all pieces that `foreachPiece` passes on. */
  def copied(foreachPiece: ((Array[Byte], Int) => Unit) => Unit): Vector[Array[Byte]] = {
    val pieces = Vector.newBuilder[Array[Byte]]
    foreachPiece((bytes, length) => pieces += bytes.take(length))
    pieces.result()
  }

  /** Calls `f(offset, header)` for each record in a byte range. Throws DamagedRecordsException if
    * the bytes are not a sequence of whole records.
    */
  def foreach(bytes: Array[Byte], offset: Int, length: Int)(f: (Int, Long) => Unit): Unit = {
    val end = offset + length
    var at = offset
    while (at < end) {
      if (end - at < Record.HeaderBytes)
        throw new DamagedRecordsException(
          s"expected a record header at byte ${at - offset}, found ${end - at} bytes"
        )
      val header = Words.get(bytes, at)
      val kind = Record.kind(header)
      if (kind == 0)
        throw new DamagedRecordsException(
          s"expected a put, a remove or an append at byte ${at - offset}, found kind $kind"
        )
      val size = Record.size(header)
      if (size > end - at)
        throw new DamagedRecordsException(
          s"expected $size bytes of a record at byte ${at - offset}, found ${end - at}"
        )
      f(at, header)
      at += size
    }
  }
}

/** Thrown for bytes that should be records and are not.
  *
  * @param damage
  *   what was expected, and what was found
  */
final class DamagedRecordsException(val damage: String)
    extends RuntimeException(s"The records of a log are damaged: $damage.")
    with MegaphoneError {
  override def condition: String = "DAMAGED_RECORDS"
}
