// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.lang.invoke.VarHandle
import java.util

import io.megaphone.log.memory.{PagedRecord, Pages}
import io.megaphone.log.record.{Record, Words}

/** The values that span several records: for each appending record, the record that it continues
  * and the length of the value up to and including it. Records are added in the order of their
  * positions; dead ones stay until the log is compacted.
  *
  * Threads: one, except `heapBytes`.
  */
private[log] final class Appends {
  private var positions, before, valueLengths = new Array[Int](Appends.CapacityMin)
  private var count = 0

  // Another thread may call `heapBytes` as soon as it sees this object.
  VarHandle.releaseFence()

  def heapBytes: Long = 3 * (positions.length * 4L + 16)

  /** @param valueBytes
    *   length of the whole value, this record's part included
    */
  def add(position: Int, previous: Int, valueBytes: Int): Unit = {
    if (count == positions.length) {
      positions = util.Arrays.copyOf(positions, count * 2)
      before = util.Arrays.copyOf(before, count * 2)
      valueLengths = util.Arrays.copyOf(valueLengths, count * 2)
    }
    positions(count) = position
    before(count) = previous
    valueLengths(count) = valueBytes
    count += 1
  }

  /** Forgets the newest record. */
  def dropLast(): Unit = count -= 1

  /** Bytes of the whole value, up to and including this record's part. */
  def valueBytes(position: Int): Int = valueLengths(placeOf(position))

  /** Writes the key and the whole value of an appending record as one put. */
  def merge(pages: Pages, position: Int, out: Array[Byte], offset: Int): Unit = {
    val last = PagedRecord.header(pages, position)
    val keyBytes = Record.keyBytes(last)
    // The same in each of the records.
    val (keyAt, valueAt) = (Record.HeaderBytes, Record.HeaderBytes + Record.padded(keyBytes))
    val length = valueBytes(position)
    if ((length & 7) != 0) Words.set(out, offset + valueAt + (length & ~7), 0L)
    Words.set(out, offset, Record.header(Record.family(last), Record.Put, keyBytes, length))
    System.arraycopy(
      pages.page(position),
      pages.offset(position) + keyAt,
      out,
      offset + keyAt,
      Record.padded(keyBytes)
    )
    var end = offset + valueAt + length // filled from the last part to the first
    var at = position
    while (at != BinLog.NoPosition) {
      val part = PagedRecord.header(pages, at)
      end -= Record.valueBytes(part)
      System.arraycopy(
        pages.page(at),
        pages.offset(at) + valueAt,
        out,
        end,
        Record.valueBytes(part)
      )
      at = if (Record.kind(part) == Record.Append) before(placeOf(at)) else BinLog.NoPosition
    }
  }

  private def placeOf(position: Int): Int = util.Arrays.binarySearch(positions, 0, count, position)
}

private[log] object Appends {
  private val CapacityMin = 4

  /** Whether the record at a position is an append; `appends` is null if there are none. */
  def isOne(appends: Appends, pages: Pages, position: Int): Boolean =
    appends != null && Record.kind(PagedRecord.header(pages, position)) == Record.Append

  /** Bytes of a live key's value, given the position and header of its record. */
  def valueBytes(appends: Appends, position: Int, header: Long): Int =
    if (Record.kind(header) == Record.Append) appends.valueBytes(position)
    else Record.valueBytes(header)

  /** Bytes of a live key's record. For a value spread over several records: the size of the one
    * record that would hold it all.
    */
  def sizeBytes(appends: Appends, position: Int, header: Long): Int =
    Record.size(Record.keyBytes(header), valueBytes(appends, position, header))
}
