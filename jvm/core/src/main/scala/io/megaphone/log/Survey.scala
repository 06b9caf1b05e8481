// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util

import scala.collection.mutable

import io.megaphone.log.memory.{ArraySink, Pages}
import io.megaphone.log.record.{Record, Words}

/** The records of a log by the hashes of their partition keys. The live records of one hash, over
  * all families, are a ''sub-bin'': in practice those of one key (Meces, section 4.2, USENIX ATC
  * 22).
  *
  *   1. A `Draft` looks at the records of the settled prefix, in the background while the log goes
  *      on. ''There is none:'' the survey looks at them.
  *   1. `of` looks at the records that have come since, once the log has come to rest.
  *   1. `bytesOf` gives a sub-bin, each value in one record.
  *   1. `foreachFrom` goes over the hashes that there are, in ascending order.
  *   1. `due` finds the sub-bins that have a row which is due by now.
  *
  * Valid as long as the log is not changed.
  *
  * Threads: one at a time.
  *
  * @param parts
  *   entries, each part ascending; those of dead records are among them
  */
final class Survey private (
    pages: Pages,
    records: LiveRecords,
    keys: KeyReader,
    parts: Vector[Array[Long]]
) {
  import Survey._

  /** Heap bytes, without those of the log. */
  def heapBytes: Long = parts.iterator.map(_.length * 8L + OwnBytes).sum

  /** The records of a sub-bin, back to back; none if the log has no key of this hash. Throws
    * IllegalStateException if one is of another hash: it would be looked for in vain where it is
    * taken in.
    */
  def bytesOf(hash: Int): Array[Byte] = {
    val positions = mutable.ArrayBuilder.make[Int]
    var bytes = 0L
    parts.foreach { part =>
      var i = firstOf(part, hash)
      while (i < part.length && hashOf(part(i)) == hash) {
        val position = positionOf(part(i))
        if (records.isLive(position)) {
          checkHash(position, hash)
          positions += position
          bytes += records.sizeBytes(position)
        }
        i += 1
      }
    }
    require(bytes <= Int.MaxValue - 64, s"an array holds at most 2 GiB, not $bytes bytes")
    val sink = new ArraySink(new Array[Byte](bytes.toInt), 0)
    positions.result().foreach(records.copy(_, sink))
    sink.array
  }

  private def checkHash(position: Int, expected: Int): Unit = {
    val (page, at) = (pages.page(position), pages.offset(position))
    val found = hashAt(keys, page, at, Words.get(page, at))
    if (found != expected)
      throw new IllegalStateException(
        s"the record at $position is of hash $found, and was surveyed as one of $expected"
      )
  }

  /** Calls `f` with each hash from `hash` on, ascending, until `f` returns false. Some may have no
    * live record.
    */
  def foreachFrom(hash: Int)(f: Int => Boolean): Unit = {
    val at = parts.map(firstOf(_, hash)).toArray
    def isLeft(i: Int) = at(i) < parts(i).length
    var goesOn = true
    while (goesOn && at.indices.exists(isLeft)) {
      val next = at.indices.iterator.filter(isLeft).map(i => hashOf(parts(i)(at(i)))).min
      for (i <- at.indices) while (isLeft(i) && hashOf(parts(i)(at(i))) == next) at(i) += 1
      goesOn = f(next)
    }
  }

  /** The hashes of the sub-bins that have a row which is due, ascending, and a time before which no
    * other row is due. Looks at all records. Throws what `keys` throws.
    */
  def due(by: Due): (Array[Int], Long) = dueIn(pages, records, keys, by)

  /** Whether something holds of all hashes. */
  def areAll(isSo: Int => Boolean): Boolean = parts.forall(_.forall(entry => isSo(hashOf(entry))))
}

object Survey {
  private val OwnBytes = 40L // this object and its array's header

  /** The beginning of a survey.
    *
    * Threads: any one, while the log goes on.
    */
  final class Draft private[log] (
      prefix: Pages,
      private[log] val basis: Pages,
      keys: => KeyReader
  ) {
    private[log] val end: Int = prefix.end
    @volatile private var made: Array[Long] = _
    @volatile private var isTried = false

    /** Looks at the records. Throws what `keys` throws. */
    def make(): Unit =
      try made = entriesOf(prefix, 0, end, keys)
      finally isTried = true

    /** Whether it is made, or cannot be. */
    def isOver: Boolean = isTried

    /** Bytes of the records that it looks at. */
    def recordBytes: Long = end * 8L

    /** Whether it is of a log as this is now: a log that was compacted since needs another one. */
    def isOf(log: BinLog): Boolean = log.pagesNow eq basis

    /** What was made; None if it is not made, or not of this log as it is now. */
    private[log] def entries(log: Pages): Option[Array[Long]] =
      Option(made).filter(_ => log eq basis)

    def heapBytes: Long = if (made == null) 0L else made.length * 8L + OwnBytes
  }

  /** Looks at the records of a log. Throws what `keys` throws. */
  def of(log: BinLog, keys: KeyReader, draft: Option[Draft] = None): Survey = {
    val pages = log.pagesNow
    val early = for (d <- draft; entries <- d.entries(pages)) yield (entries, d.end)
    val parts = early match {
      case Some((entries, end)) => Vector(entries, entriesOf(pages, end, pages.end, keys))
      case None => Vector(entriesOf(pages, 0, pages.end, keys))
    }
    new Survey(pages, log.liveRecords, keys, parts)
  }

  /** As `due` of a survey, of a log that has none. */
  def dueIn(log: BinLog, keys: KeyReader, by: Due): (Array[Int], Long) =
    dueIn(log.pagesNow, log.liveRecords, keys, by)

  /** Calls `f` with the hash of each record of a log but removals, also of dead ones. */
  def foreachHash(log: BinLog, keys: KeyReader)(f: Int => Unit): Unit =
    foreachKey(log.pagesNow, 0, log.pagesNow.end, keys)((_, hash) => f(hash))

  private def dueIn(
      pages: Pages,
      records: LiveRecords,
      keys: KeyReader,
      by: Due
  ): (Array[Int], Long) = {
    val found = mutable.Set.empty[Int]
    var next = RowTime.Never
    pages.foreachRecord(0, pages.end) { (position, page, at) =>
      val header = Words.get(page, at)
      if (Record.family(header) == by.time.family && Record.kind(header) != Record.Remove) {
        val time = by.time.of(page, at, keys)
        if (time > by.until) next = math.min(next, time) // of a dead record, too: that is earlier
        else if (time >= by.from && records.isLive(position))
          found += hashAt(keys, page, at, header)
      }
    }
    (found.toArray.sorted, next)
  }

  private def entriesOf(pages: Pages, from: Int, until: Int, keys: KeyReader): Array[Long] = {
    val entries = mutable.ArrayBuilder.make[Long]
    foreachKey(pages, from, until, keys)((position, hash) => entries += entry(hash, position))
    val made = entries.result()
    util.Arrays.sort(made)
    made
  }

  private def foreachKey(pages: Pages, from: Int, until: Int, keys: KeyReader)(
      f: (Int, Int) => Unit
  ): Unit = pages.foreachRecord(from, until) { (position, page, at) =>
    val header = Words.get(page, at)
    if (Record.kind(header) != Record.Remove) f(position, hashAt(keys, page, at, header))
  }

  private def hashAt(keys: KeyReader, page: Array[Byte], at: Int, header: Long): Int =
    keys.hashOf(Record.family(header), page, at + Record.HeaderBytes, Record.keyBytes(header))

  // Ascending by hash, then by position: a position is never negative.
  private def entry(hash: Int, position: Int): Long = (hash.toLong << 32) | position
  private def hashOf(entry: Long): Int = (entry >> 32).toInt
  private def positionOf(entry: Long): Int = entry.toInt

  private def firstOf(part: Array[Long], hash: Int): Int = {
    val found = util.Arrays.binarySearch(part, entry(hash, 0))
    if (found < 0) ~found else found
  }
}
