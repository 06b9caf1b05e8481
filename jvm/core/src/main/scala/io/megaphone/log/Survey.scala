// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util

import io.megaphone.log.memory.ArraySink
import io.megaphone.log.record.{Record, Words}

/** The live records of a log by the hashes of their partition keys. The records of one hash, over
  * all families, are a ''sub-bin'': in practice those of one key (Meces, section 4.2, USENIX ATC
  * 22).
  *
  *   1. `of` looks at each live record once.
  *   1. `bytesOf` gives a sub-bin, each value in one record.
  *   1. `foreachFrom` goes over the hashes that there are, in ascending order.
  *
  * Valid as long as the log is not changed.
  *
  * Threads: one at a time.
  */
final class Survey private (records: LiveRecords, entries: Array[Long]) {

  /** Heap bytes, without those of the log. */
  def heapBytes: Long = entries.length * 8L + Survey.OwnBytes

  /** The records of a sub-bin, back to back; none if the log has no key of this hash. */
  def bytesOf(hash: Int): Array[Byte] = {
    val from = firstOf(hash)
    var until = from
    var bytes = 0L
    while (until < entries.length && Survey.hashOf(entries(until)) == hash) {
      bytes += records.sizeBytes(Survey.positionOf(entries(until)))
      until += 1
    }
    require(bytes <= Int.MaxValue - 64, s"an array holds at most 2 GiB, not $bytes bytes")
    val sink = new ArraySink(new Array[Byte](bytes.toInt), 0)
    for (i <- from until until) records.copy(Survey.positionOf(entries(i)), sink)
    sink.array
  }

  /** Calls `f` with each hash from `hash` on, ascending, until `f` returns false. */
  def foreachFrom(hash: Int)(f: Int => Boolean): Unit = {
    var i = firstOf(hash)
    while (i < entries.length) {
      val next = Survey.hashOf(entries(i))
      i = if (f(next)) behind(next, i) else entries.length
    }
  }

  /** Whether something holds of all hashes. */
  def areAll(isSo: Int => Boolean): Boolean = entries.forall(entry => isSo(Survey.hashOf(entry)))

  private def firstOf(hash: Int): Int = {
    val found = util.Arrays.binarySearch(entries, Survey.entry(hash, 0))
    if (found < 0) ~found else found
  }

  private def behind(hash: Int, from: Int): Int = {
    var i = from
    while (i < entries.length && Survey.hashOf(entries(i)) == hash) i += 1
    i
  }
}

object Survey {
  private val OwnBytes = 40L // this object and its array's header

  /** Looks at all records of a log. Throws what `hash` throws. */
  def of(log: BinLog, hash: KeyHash): Survey = {
    val records = log.liveRecords
    val entries = new Array[Long](log.keyCount)
    var count = 0
    records.foreach { (position, page, at) =>
      val header = Words.get(page, at)
      val of = hash(Record.family(header), page, at + Record.HeaderBytes, Record.keyBytes(header))
      entries(count) = entry(of, position)
      count += 1
    }
    util.Arrays.sort(entries)
    new Survey(records, entries)
  }

  // Ascending by hash, then by position: a position is never negative.
  private def entry(hash: Int, position: Int): Long = (hash.toLong << 32) | position
  private def hashOf(entry: Long): Int = (entry >> 32).toInt
  private def positionOf(entry: Long): Int = entry.toInt
}
