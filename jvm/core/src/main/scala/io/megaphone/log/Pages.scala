// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util

/** The space of one log: an append-only address space in pages that start small and grow with the log.
  *
  * A position is a word number (bytes / 8) that never changes while the record lives. Pages come in levels of four: 4 × 256 B, 4 × 512 B, … up to 1
  * MiB, then all of 1 MiB: the page of a position is
  * arithmetic, and of a log of small records at most about a fifth is unused. A record never spans pages; one larger than a page takes a page of its
  * own that spans the slots it needs.
  *
  * One thread appends and truncates. Other threads may read what lies below a position they were handed (through any safe publication): nothing below
  * it is ever overwritten.
  */
final class Pages {
  import Pages._

  private var pages = EmptyPages
  private var filledBytes = EmptyFilled // of closed pages; the last page is filled up to `end`
  private var endPosition = 0 // words

  /** The position behind the last record, in words. */
  def end: Int = endPosition

  /** Reserves `size` bytes (a multiple of 8) and returns their position. */
  def reserve(size: Int): Int = {
    var slot = if (endPosition == 0) 0 else baseSlot(endPosition - 1)
    val used = offsetIn(slot, endPosition)
    val position =
      if (slot < pages.length && pages(slot) != null && pages(slot).length - used >= size) endPosition
      else {
        if (slot < pages.length && pages(slot) != null) {
          filledBytes(slot) = used
          slot = slotOf(startOf(slot) + (pages(slot).length >>> 3) - 1) + 1 // behind a page that spans several slots
        }
        allocate(slot, size)
        startOf(slot)
      }
    val end = position + (size >>> 3)
    require(position >= 0 && end > position, s"a bin's log holds at most ${Int.MaxValue.toLong << 3} bytes: use more bins")
    endPosition = end
    position
  }

  /** The page that holds `position`. */
  def page(position: Int): Array[Byte] = pages(baseSlot(position))

  /** The byte offset of `position` in its page. */
  def offset(position: Int): Int = offsetIn(baseSlot(position), position)

  /** Drops everything from `position` on. What was read above it must not be used any more. */
  def truncate(position: Int): Unit = {
    endPosition = position
    val keep = if (position == 0) 0 else slotOf(position - 1) + 1
    util.Arrays.fill(pages.asInstanceOf[Array[AnyRef]], math.min(keep, pages.length), pages.length, null)
  }

  /** Calls `f(page, fromByte, toByte)` for each stretch of records in `[from, until)`, in order. */
  def foreachStretch(from: Int, until: Int)(f: (Array[Byte], Int, Int) => Unit): Unit =
    if (until > from) {
      val last = slotOf(until - 1)
      var slot = baseSlot(from)
      while (slot <= last) {
        val page = pages(slot)
        if (page != null) {
          val start = if (startOf(slot) < from) offsetIn(slot, from) else 0
          val spansEnd = startOf(slot) + (page.length >>> 3) >= until
          val stop = if (spansEnd) offsetIn(slot, until) else filledBytes(slot)
          if (stop > start) f(page, start, stop)
        }
        slot += 1
      }
    }

  /** Heap bytes held, headers of arrays aside. */
  def heapBytes: Long = {
    var sum = pages.length * 12L
    pages.foreach(p => if (p != null) sum += p.length + 16)
    sum
  }

  /** A view of what lies below `end` that later appends do not touch: shares the pages, copies only their list. */
  def prefix(end: Int): Pages = {
    val p = new Pages
    val slots = if (end == 0) 0 else slotOf(end - 1) + 1
    p.pages = util.Arrays.copyOf(pages, slots)
    p.filledBytes = util.Arrays.copyOf(filledBytes, slots)
    p.endPosition = end
    p
  }

  private def baseSlot(position: Int): Int = {
    var slot = slotOf(position)
    while (pages(slot) == null) slot -= 1 // inside a page that spans several slots: rare
    slot
  }

  private def allocate(slot: Int, size: Int): Unit = {
    var lastSlot = slot
    var capacity = slotBytes(slot)
    while (capacity < size) { lastSlot += 1; capacity += slotBytes(lastSlot) }
    if (lastSlot >= pages.length) {
      val length = math.max(lastSlot + 1, pages.length + (pages.length >> 1) + 1)
      pages = util.Arrays.copyOf(pages, length)
      filledBytes = util.Arrays.copyOf(filledBytes, length)
    }
    pages(slot) = new Array[Byte](capacity)
  }
}

object Pages {
  private val EmptyPages = new Array[Array[Byte]](0)
  private val EmptyFilled = new Array[Int](0)
  private val UnitWordsShift = 5 // the smallest page, 256 B, in words
  private val TopLevel = 12 // 256 B << 12 = 1 MiB
  private val TopSlot = TopLevel << 2
  private val TopUnits = 4 * ((1 << TopLevel) - 1)

  /** Bytes of the page in `slot`. */
  def slotBytes(slot: Int): Int = 256 << math.min(slot >>> 2, TopLevel)

  /** First position of `slot`. */
  def startOf(slot: Int): Int = {
    val units =
      if (slot >= TopSlot) TopUnits + ((slot - TopSlot) << TopLevel)
      else { val level = slot >>> 2; 4 * ((1 << level) - 1) + ((slot & 3) << level) }
    units << UnitWordsShift
  }

  /** Slot of a position. */
  def slotOf(position: Int): Int = {
    val units = position >>> UnitWordsShift
    if (units >= TopUnits) TopSlot + ((units - TopUnits) >>> TopLevel)
    else {
      val level = 31 - Integer.numberOfLeadingZeros((units >>> 2) + 1)
      (level << 2) + ((units - 4 * ((1 << level) - 1)) >>> level)
    }
  }

  private def offsetIn(slot: Int, position: Int): Int = (position - startOf(slot)) << 3
}
