// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import java.util

import io.megaphone.log.record.{Record, Words}

/** Collects records into pieces of whole records, and passes each piece on when it is full. So a
  * log of any size can be written and sent with the memory of one piece.
  *
  * Threads: one.
  *
  * @param maxBytes
  *   how many bytes a piece has at most, unless a single record has more
  * @param expectedBytes
  *   about how many bytes there will be in all
  * @param pass
  *   is called with an array and the bytes of it that are filled; it must not keep the array
  */
final private[log] class Pieces(
    maxBytes: Int,
    expectedBytes: Long,
    pass: (Array[Byte], Int) => Unit
) extends RecordSink {
  private var piece = new Array[Byte](math.min(maxBytes.toLong, expectedBytes).toInt)
  private var filled = 0

  override def array: Array[Byte] = piece

  override def reserve(size: Int): Int = {
    if (filled > 0 && size > maxBytes - filled) end()
    val bytes = filled + size
    if (bytes > piece.length)
      piece = util.Arrays.copyOf(piece, math.max(bytes, math.min(maxBytes, 2 * piece.length)))
    filled = bytes
    bytes - size
  }

  /** Adds the records in a stretch of a page. */
  def add(page: Array[Byte], start: Int, stop: Int): Unit = {
    var from = start
    while (from < stop) {
      val until = if (stop - from <= maxBytes - filled) stop else fitting(page, from, stop)
      val at = reserve(until - from)
      System.arraycopy(page, from, piece, at, until - from)
      from = until
    }
  }

  /** The end of the records from `from` on that fit into the piece; that of the first at least. */
  private def fitting(page: Array[Byte], from: Int, stop: Int): Int = {
    val room = maxBytes - filled
    var until = from + Record.size(Words.get(page, from))
    var isFull = until - from > room
    while (!isFull && until < stop) {
      val next = until + Record.size(Words.get(page, until))
      if (next - from > room) isFull = true else until = next
    }
    until
  }

  /** Passes on the records that are left. */
  def end(): Unit = if (filled > 0) { pass(piece, filled); filled = 0 }
}
