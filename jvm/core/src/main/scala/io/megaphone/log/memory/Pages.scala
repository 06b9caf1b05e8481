// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import java.util

import io.megaphone.log.record.{Record, Words}

/** The space of one log: an append-only address space in pages that start small and grow with the
  * log.
  *
  * A position is a word number (bytes / 8) that never changes while the record lives. Pages come in
  * levels of four: 4 × 1 KiB, 4 × 2 KiB, … up to 64 KiB, then all of 64 KiB: the page of a position
  * is arithmetic. A record never spans pages; one larger than a page takes a page of its own that
  * spans the slots it needs.
  *
  * The first pages become as large as their slots in steps of an eighth of the log, each a copy,
  * for there are logs of a few records. A page that has no room for the next record is cut off
  * behind its last one: of a log of small records, an eighth is unused on average.
  *
  * One thread uses them. Others may read a `prefix` that they were handed (through any safe
  * publication): nothing below its end is ever overwritten. What was read from a page that has
  * grown since stays as it was.
  *
  * Where [[HeapBudget]] is short, pages that are full lie on disk, and `page` gives a copy of the
  * one record that is asked for.
  *
  * @param expectedWords
  *   of records that are known to come: pages are made for them in one step
  */
final class Pages(budget: HeapBudget = HeapBudget.Unlimited, expectedWords: Int = 0) {
  import Pages._

  private var pages = EmptyPages // OnDisk where a page has the bytes
  private var spilled = NoSpilled // as long as `pages` as soon as one has left the heap
  private var oldestOnHeap = 0 // no slot below has a page that may leave
  private var arrayWords = 0 // that the pages on the heap take
  private var expectedEnd =
    expectedWords // position behind the records that are known to come; 0 where none are
  private var copiedPosition = -1 // the record on disk that was read last, and its copy
  private var copied: Array[Byte] = _
  private var endPosition = 0 // words

  /** The position behind the last record, in words. */
  def end: Int = endPosition

  /** Reserves `size` bytes (a multiple of 8) and returns their position. */
  def reserve(size: Int): Int = {
    val slot = if (endPosition == 0) 0 else baseSlot(endPosition - 1)
    val used = offsetIn(slot, endPosition)
    val isThere = slot < pages.length && pages(slot) != null
    val position =
      if (isThere && capacity(slot) - used >= size) {
        if (pages(slot).length - used < size) resize(slot, steppedBytes(slot, used + size))
        endPosition
      } else {
        val next = if (isThere) slotAfter(slot) else slot
        pay(
          math.max(size, slotBytes(next))
        ) // all that the page may become, so that its steps need not ask
        if (isThere) close(slot, used)
        allocate(next, size)
        startOf(next)
      }
    val end = position + (size >>> 3)
    require(
      position >= 0 && end > position,
      s"a bin's log holds at most ${Int.MaxValue.toLong << 3} bytes: use more bins"
    )
    endPosition = end
    position
  }

  /** The bytes that hold the record at `position`. */
  def page(position: Int): Array[Byte] = {
    val slot = baseSlot(position)
    val page = pages(slot)
    if (page ne OnDisk) page
    else if (copiedPosition == position) copied
    else if (budget.hasRoom(spilled(slot).length)) { bringBack(slot); pages(slot) }
    else recordOf(slot, position)
  }

  /** The byte offset of `position` in them. */
  def offset(position: Int): Int = {
    val slot = baseSlot(position)
    if (pages(slot) ne OnDisk) offsetIn(slot, position) else 0
  }

  /** Has the processor fetch the record at `position` if it lies in memory; what it gives means
    * nothing.
    */
  private[log] def prefetch(position: Int): Long = {
    val slot = baseSlot(position)
    val page = pages(slot)
    if (page ne OnDisk) Words.get(page, offsetIn(slot, position)) else 0
  }

  /** Drops everything from `position` on. What was read above it must not be used any more. */
  def truncate(position: Int): Unit = {
    endPosition = position
    expectedEnd = 0
    val keep = if (position == 0) 0 else slotOf(position - 1) + 1
    var slot = keep
    while (slot < pages.length) { drop(slot); slot += 1 }
    oldestOnHeap = math.min(oldestOnHeap, keep)
    val last = if (position == 0) -1 else baseSlot(position - 1)
    if (last >= 0 && (pages(last) eq OnDisk)) bringBack(last) // it is written to again
    forget()
  }

  /** Lets go of the copy of the record on disk that was read last. */
  def forget(): Unit = { copiedPosition = -1; copied = null }

  /** Puts pages that are full on disk, oldest first, until so many bytes of heap are free or no
    * more can be; gives how many are. Throws SpillException; those that have left are on disk then,
    * the others are not.
    */
  def spill(bytes: Long): Long = {
    val last = if (endPosition == 0) 0 else baseSlot(endPosition - 1)
    var freed = 0L
    while (freed < bytes && oldestOnHeap < last) {
      val slot = oldestOnHeap
      val page = pages(slot)
      if (page != null && (page ne OnDisk) && page.length >= budget.pageBytesMin) {
        keepSpilled(slot, budget.write(page))
        pages(slot) = OnDisk
        held(-page.length)
        freed += page.length
      }
      oldestOnHeap += 1
    }
    freed
  }

  /** Writes those spilled anew whose files have little else in them. Throws SpillException. */
  def repack(): Unit =
    for (slot <- spilled.indices; page = spilled(slot) if page != null && page.isThin)
      spilled(slot) = budget.write(page.read(0, page.length))

  /** Calls `f(page, fromByte, toByte)` for each stretch of records in `[from, until)`, in order. */
  def foreachStretch(from: Int, until: Int)(f: (Array[Byte], Int, Int) => Unit): Unit =
    foreachPage(from, until) { (slot, start, stop) =>
      if (pages(slot) ne OnDisk) f(pages(slot), start, stop)
      else f(spilled(slot).read(start, stop - start), 0, stop - start)
    }

  /** Calls `f(position, page, offset)` for each record, in order: memory is read from its beginning
    * to its end, and what lies on disk page by page.
    */
  def foreachRecord(f: RecordVisitor): Unit =
    foreachPage(0, endPosition) { (slot, start, stop) =>
      val page = if (pages(slot) ne OnDisk) pages(slot) else spilled(slot).read(0, stop)
      var at = start
      while (at < stop) {
        f(startOf(slot) + (at >>> 3), page, at)
        at += Record.size(Words.get(page, at))
      }
    }

  /** Calls `f(slot, fromByte, toByte)` for each page that has records in `[from, until)`, in order. */
  private def foreachPage(from: Int, until: Int)(f: (Int, Int, Int) => Unit): Unit =
    if (until > from) {
      val last = slotOf(until - 1)
      var slot = baseSlot(from)
      while (slot <= last) {
        if (pages(slot) != null) {
          val start = if (startOf(slot) < from) offsetIn(slot, from) else 0
          val bytes = bytesIn(slot)
          val stop = if (startOf(slot) + (bytes >>> 3) >= until) offsetIn(slot, until) else bytes
          if (stop > start) f(slot, start, stop)
        }
        slot += 1
      }
    }

  /** Bytes of records in `[from, until)`; nothing is read. */
  def bytesOf(from: Int, until: Int): Long = {
    var sum = 0L
    foreachPage(from, until)((_, start, stop) => sum += stop - start)
    sum
  }

  /** Heap bytes held, headers of arrays aside. */
  def heapBytes: Long = (arrayWords.toLong << 3) + pages.length * 4L + spilled.length * 8L

  /** Bytes of pages that lie on disk. */
  def bytesOnDisk: Long = {
    var sum = 0L; spilled.foreach(p => if (p != null) sum += p.length); sum
  }

  /** A view of what lies below `end` that later appends do not touch: shares the pages, copies only
    * their list.
    */
  def prefix(end: Int): Pages = {
    val p = new Pages
    val slots = if (end == 0) 0 else slotOf(end - 1) + 1
    p.pages = util.Arrays.copyOf(pages, slots)
    p.spilled = if (spilled.length == 0) spilled else util.Arrays.copyOf(spilled, slots)
    p.endPosition = end
    p
  }

  private def baseSlot(position: Int): Int = {
    var slot = slotOf(position)
    while (pages(slot) == null) slot -= 1 // inside a page that spans several slots: rare
    slot
  }

  /** Makes a page for a record of so many bytes. */
  private def allocate(slot: Int, size: Int): Unit = {
    val last = slotOf(startOf(slot) + (math.max(size, slotBytes(slot)) >>> 3) - 1)
    if (last >= pages.length)
      pages = util.Arrays.copyOf(pages, math.max(last + 1, pages.length + (pages.length >> 1) + 1))
    pages(slot) = new Array[Byte](if (last > slot) size else steppedBytes(slot, size))
    held(pages(slot).length)
  }

  /** Cuts the last page off behind its records. */
  private def close(slot: Int, used: Int): Unit = {
    if (expectedEnd > 0) expectedEnd += (capacity(slot) - used) >>> 3
    if (pages(slot).length > used) resize(slot, used)
  }

  private def resize(slot: Int, bytes: Int): Unit = {
    val more = bytes - pages(slot).length
    pages(slot) = util.Arrays.copyOf(pages(slot), bytes)
    arrayWords += more >> 3
    budget.grew(more)
  }

  /** Bytes for the last page where it needs `size` of them: room for the records that are known to
    * come, or for what may come.
    */
  private def steppedBytes(slot: Int, size: Int): Int = {
    val expected = (expectedEnd - startOf(slot)).toLong << 3
    val spare =
      if (slot < SteppedSlots) math.max(StepBytesMin, endPosition & ~7)
      else slotBytes(slot) // an eighth of the log: its words are as many
    math.min(slotBytes(slot).toLong, if (expected >= size) expected else size.toLong + spare).toInt
  }

  /** Makes room in the budget. Throws, if at all, before there is any record to take back. */
  private def pay(bytes: Int): Unit = {
    val deficit = budget.deficit(bytes)
    if (deficit > 0) { spill(deficit); () }
  }

  /** Bytes that the page of a slot has room for, wherever it lies: a page spans the slots behind it
    * that have none.
    */
  private def capacity(slot: Int): Int = math.max(slotBytes(slot), bytesIn(slot))

  private def bytesIn(slot: Int): Int =
    if (pages(slot) ne OnDisk) pages(slot).length else spilled(slot).length

  private def slotAfter(slot: Int): Int = slotOf(startOf(slot) + (capacity(slot) >>> 3) - 1) + 1

  private def recordOf(slot: Int, position: Int): Array[Byte] = {
    val at = offsetIn(slot, position)
    copied = spilled(slot).read(at, Record.size(spilled(slot).word(at)))
    copiedPosition = position
    copied
  }

  private def bringBack(slot: Int): Unit = {
    pages(slot) = spilled(slot).read(0, spilled(slot).length)
    spilled(slot) = null
    held(pages(slot).length)
    oldestOnHeap = math.min(oldestOnHeap, slot)
    forget()
  }

  private def keepSpilled(slot: Int, page: SpillFiles.SpilledPage): Unit = {
    if (spilled.length < pages.length) spilled = util.Arrays.copyOf(spilled, pages.length)
    spilled(slot) = page
  }

  private def drop(slot: Int): Unit = {
    if (pages(slot) != null) held(-pages(slot).length)
    pages(slot) = null
    if (slot < spilled.length) spilled(slot) = null
  }

  /** A page is on the heap, or, below zero, is not any more; of one that lies on disk there is
    * nothing to say.
    */
  private def held(bytes: Int): Unit = if (bytes != 0) {
    arrayWords += (bytes >> 3) + (if (bytes > 0) ArrayHeaderWords else -ArrayHeaderWords)
    budget.grew(bytes)
  }
}

object Pages {

  /** Is shown a record: its position, and the page and the byte where it lies. A function of
    * Scala's would box two numbers for each.
    */
  trait RecordVisitor {
    def apply(position: Int, page: Array[Byte], at: Int): Unit
  }

  private val EmptyPages = new Array[Array[Byte]](0)
  private val NoSpilled = new Array[SpillFiles.SpilledPage](0)
  private val OnDisk = new Array[Byte](0)
  private val ArrayHeaderWords = 2
  private val StepBytesMin = 64
  private val SlotBytesMin = 1024
  private val SteppedSlots = 4
  private val UnitWordsShift = 7 // the smallest slot in words
  private val TopLevel =
    6 // 1 KiB << 6 = 64 KiB: what a log is writing cannot leave the heap, and larger arrays are a burden to some collectors
  private val TopSlot = TopLevel << 2
  private val TopUnits = 4 * ((1 << TopLevel) - 1)

  /** Bytes that the page in `slot` has at most, but for one that spans several slots. */
  def slotBytes(slot: Int): Int = SlotBytesMin << math.min(slot >>> 2, TopLevel)

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
