// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.index.FamilyIndexes
import io.megaphone.log.memory.{PagedRecord, Pages, RecordSink}
import io.megaphone.log.record.{Record, Words}

/** Rewrites the live records of a log, each value as one record. Ordered families are written in
  * key order, the others in no particular order.
  *
  * @param appends
  *   null if no value spans several records
  */
private[log] final class LiveRecords(pages: Pages, families: FamilyIndexes, appends: Appends) {

  /** Copies the record at a position. */
  def copy(position: Int, out: RecordSink): Unit =
    copy(position, pages.page(position), pages.offset(position), out)

  private def copy(position: Int, page: Array[Byte], from: Int, out: RecordSink): Unit = {
    val header = Words.get(page, from)
    val bytes = Appends.sizeBytes(appends, position, header)
    val at = out.reserve(bytes)
    if (Record.kind(header) == Record.Append) appends.merge(pages, position, out.array, at)
    else System.arraycopy(page, from, out.array, at, bytes)
  }

  /** Whether the record at a position is that of a live key. */
  def isLive(position: Int): Boolean = {
    val index = families.of(Record.family(PagedRecord.header(pages, position)))
    index != null && index.slotAt(PagedRecord.hash(pages, position), position) >= 0
  }

  /** How many bytes the record at a position has as one record. */
  def sizeBytes(position: Int): Int =
    Appends.sizeBytes(appends, position, PagedRecord.header(pages, position))

  def copyTo(out: RecordSink): Unit = {
    var isAnyUnordered = false
    families.foreach((_, order) => if (order == null) isAnyUnordered = true)
    if (isAnyUnordered)
      pages.foreachRecord { (position, page, from) =>
        val header = Words.get(page, from)
        val family = Record.family(header)
        if (!Record.isOrdered(family)) {
          val hash = Words.hash(page, from + Record.HeaderBytes, Record.keyBytes(header))
          if (families.of(family).slotAt(hash, position) >= 0) copy(position, page, from, out)
        }
      }
    families.foreach { (_, order) =>
      if (order != null) order.foreach { position =>
        copy(position, out)
        position
      }
    }
  }

  /** Copies the records to `fresh`, and only after all are written points the indexes there. Throws
    * SpillException; the indexes are then unchanged.
    */
  def moveTo(fresh: Pages): Unit = {
    val targets = new Array[Int](families.keyCount)
    var count = 0
    def move(position: Int): Int = {
      targets(count) = copied(position, fresh)
      count += 1
      position
    }
    families.foreach((index, order) =>
      if (order == null) index.foreach(move) else order.foreach(move)
    )
    count = 0
    def next(): Int = {
      count += 1
      targets(count - 1)
    }
    families.foreach { (index, order) =>
      if (order == null) index.foreach(_ => next())
      else
        order.foreach { position =>
          val target = next()
          index.repoint(index.slotAt(PagedRecord.hash(pages, position), position), target)
          target
        }
    }
  }

  private def copied(position: Int, fresh: Pages): Int =
    if (!Appends.isOne(appends, pages, position)) PagedRecord.copy(pages, position, fresh)
    else {
      val target =
        fresh.reserve(Appends.sizeBytes(appends, position, PagedRecord.header(pages, position)))
      appends.merge(pages, position, fresh.page(target), fresh.offset(target))
      target
    }
}
