// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import java.lang.invoke.VarHandle
import java.util

import io.megaphone.log.record.{Record, Words}

/** The pages of one log, on the heap or on disk: an append-only sequence of records.
  *
  * A position is a word number (bytes / 8) that never changes while the record lives; `PageLayout`
  * maps it to a slot. A record never spans pages. A record larger than a slot has a page of its
  * own, which spans the slots that it needs.
  *
  * The first pages grow to the size of their slots in steps of an eighth of the log, each a copy,
  * because some logs have only a few records. A page without room for the next record is cut off
  * after its last one. In a log of small records an eighth is unused on average.
  *
  * If [[HeapBudget]] is short, full pages lie on disk, and `page` returns a copy of the one record
  * asked for.
  *
  * Threads: one. Others may read a `prefix` that was safely published to them: nothing below its
  * end is ever overwritten. Bytes read from a page do not change when the page grows.
  *
  * @param expectedWords
  *   words of the records that are known to come: pages for them are allocated in one step
  */
final class Pages(budget: HeapBudget = HeapBudget.Unlimited, expectedWords: Int = 0) {
  import PageLayout._
  import Pages._

  private var pages = EmptyPages // by slot; OnDisk if `spilled` has the page
  private var spilled = NoSpilled // by slot; empty until a page has left the heap
  private var oldestOnHeap = 0 // no slot below has a page that may leave
  private var arrayWords = 0 // words of the pages on the heap
  private var expectedEnd = expectedWords // position after the expected records; 0 if none are
  private var copiedPosition = -1 // the record on disk that was read last
  private var copied: Array[Byte] = _ // its copy
  private var endPosition = 0 // words

  // Another thread may call `heapBytes` as soon as it sees this object.
  VarHandle.releaseFence()

  /** The position after the last record, in words. */
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
        pay(math.max(size, slotBytes(next))) // the page's full size, so its steps need not pay
        if (isThere) close(slot, used)
        allocate(next, size)
        startOf(next)
      }
    endPosition = endAfter(position, size)
    position
  }

  /** Returns the array that holds the record at `position`. */
  def page(position: Int): Array[Byte] = page(baseSlot(position), position)

  /** Returns the byte offset of `position` in the array that `page` has just returned for it. */
  def offset(position: Int): Int = offset(baseSlot(position), position)

  /** Returns the slot in which the page of a position begins. */
  private[memory] def baseSlot(position: Int): Int = {
    var slot = slotOf(position)
    while (pages(slot) == null) slot -= 1 // rare: inside a page that spans several slots
    slot
  }

  /** As `page` above, if the slot is known: it is looked up once for a record. */
  private[memory] def page(slot: Int, position: Int): Array[Byte] = {
    val page = pages(slot)
    if (page ne OnDisk) page
    else if (copiedPosition == position) copied
    else if (budget.hasRoom(spilled(slot).length)) {
      bringBack(slot)
      pages(slot)
    } else recordOf(slot, position)
  }

  /** As `offset` above, if the slot is known. */
  private[memory] def offset(slot: Int, position: Int): Int =
    if (pages(slot) ne OnDisk) offsetIn(slot, position) else 0

  /** Prefetches the record at `position` if its page is on the heap. The result is meaningless; it
    * keeps the JIT from dropping the load.
    */
  private[log] def prefetch(position: Int): Long = {
    val slot = baseSlot(position)
    val page = pages(slot)
    if (page ne OnDisk) Words.get(page, offsetIn(slot, position)) else 0
  }

  /** Drops all records from `position` on. Bytes read from there must no longer be used. */
  def truncate(position: Int): Unit = {
    endPosition = position
    expectedEnd = 0
    val keep = if (position == 0) 0 else slotOf(position - 1) + 1
    var slot = keep
    while (slot < pages.length) {
      drop(slot)
      slot += 1
    }
    oldestOnHeap = math.min(oldestOnHeap, keep)
    val last = if (position == 0) -1 else baseSlot(position - 1)
    if (last >= 0 && (pages(last) eq OnDisk)) bringBack(last) // it will be written to
    forget()
  }

  /** Releases the copy of the record on disk that was read last. */
  def forget(): Unit = {
    copiedPosition = -1
    copied = null
  }

  /** Spills full pages to disk, oldest first, until `bytes` of heap are free or no further page can
    * leave. Returns the bytes freed. Throws SpillException; each page is then either on disk or
    * still on the heap.
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

  /** Rewrites the spilled pages whose files have few live pages left. Throws SpillException. */
  def repack(): Unit =
    for (slot <- spilled.indices; page = spilled(slot) if page != null && page.isThin)
      spilled(slot) = budget.write(page.read(0, page.length))

  /** Calls `f(page, fromByte, toByte)` for each stretch of records in `[from, until)`, in order. */
  def foreachStretch(from: Int, until: Int)(f: (Array[Byte], Int, Int) => Unit): Unit =
    foreachPage(from, until) { (slot, start, stop) =>
      if (pages(slot) ne OnDisk) f(pages(slot), start, stop)
      else f(spilled(slot).read(start, stop - start), 0, stop - start)
    }

  /** Calls `f(position, page, offset)` for each record, in order. Memory is read sequentially, and
    * the disk page by page.
    */
  def foreachRecord(f: RecordVisitor): Unit = foreachRecord(0, endPosition)(f)

  /** The same, of the records in `[from, until)`. */
  def foreachRecord(from: Int, until: Int)(f: RecordVisitor): Unit =
    foreachPage(from, until) { (slot, start, stop) =>
      val page = if (pages(slot) ne OnDisk) pages(slot) else spilled(slot).read(0, stop)
      var at = start
      while (at < stop) {
        f(startOf(slot) + (at >>> 3), page, at)
        at += Record.size(Words.get(page, at))
      }
    }

  /** Calls `f(slot, fromByte, toByte)` for each page with records in `[from, until)`, in order. */
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

  /** Bytes of the records in `[from, until)`, computed without reading them. */
  def bytesOf(from: Int, until: Int): Long = {
    var sum = 0L
    foreachPage(from, until)((_, start, stop) => sum += stop - start)
    sum
  }

  /** Heap bytes of the pages, and of their lists without the lists' headers. */
  def heapBytes: Long = (arrayWords.toLong << 3) + pages.length * 4L + spilled.length * 8L

  /** Heap bytes of the pages that this view has and `log` has not, or not any more. Any thread may
    * ask; while `log` changes, it is about so many.
    */
  private[memory] def heapBytesBeside(log: Pages): Long = {
    val others = log.pages // read once
    var sum = 0L
    var slot = 0
    while (slot < pages.length) {
      val page = pages(slot)
      val isShared = slot < others.length && (others(slot) eq page)
      if (page != null && (page ne OnDisk) && !isShared) sum += page.length
      slot += 1
    }
    sum
  }

  /** Bytes of the pages on disk. */
  def bytesOnDisk: Long = {
    var sum = 0L
    spilled.foreach(p => if (p != null) sum += p.length)
    sum
  }

  /** Returns a view of the records below `end` that later appends do not change. It shares the
    * pages and copies only their list.
    */
  def prefix(end: Int): Pages = {
    val p = new Pages
    val slots = if (end == 0) 0 else slotOf(end - 1) + 1
    p.pages = util.Arrays.copyOf(pages, slots)
    p.spilled = if (spilled.length == 0) spilled else util.Arrays.copyOf(spilled, slots)
    p.endPosition = end
    p
  }

  /** Allocates the page of `slot` for a first record of `size` bytes. */
  private def allocate(slot: Int, size: Int): Unit = {
    val last = slotOf(startOf(slot) + (math.max(size, slotBytes(slot)) >>> 3) - 1)
    if (last >= pages.length)
      pages = util.Arrays.copyOf(pages, math.max(last + 1, pages.length + (pages.length >> 1) + 1))
    pages(slot) = new Array[Byte](if (last > slot) size else steppedBytes(slot, size))
    held(pages(slot).length)
  }

  /** Cuts the last page off after its records. */
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

  /** Returns the length for the last page if it needs `size` bytes: with room for the expected
    * records or, if none are expected, for a step's growth.
    */
  private def steppedBytes(slot: Int, size: Int): Int = {
    val expected = (expectedEnd - startOf(slot)).toLong << 3
    // An eighth of the log's bytes equals its number of words.
    val spare =
      if (slot < SteppedSlots) math.max(StepBytesMin, endPosition & ~7) else slotBytes(slot)
    math.min(slotBytes(slot).toLong, if (expected >= size) expected else size.toLong + spare).toInt
  }

  /** Makes room for `bytes` in the budget. Throws SpillException, before the log has changed. */
  private def pay(bytes: Int): Unit = {
    val deficit = budget.deficit(bytes)
    if (deficit > 0) {
      spill(deficit)
      ()
    }
  }

  /** Bytes that the page of a slot can hold, on the heap or on disk: those of its slot, or of its
    * one larger record.
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

  /** Accounts for a page that entered the heap (`bytes` > 0) or left it (`bytes` < 0). Pages on
    * disk have no bytes here and are not counted.
    */
  private def held(bytes: Int): Unit = if (bytes != 0) {
    arrayWords += (bytes >> 3) + (if (bytes > 0) ArrayHeaderWords else -ArrayHeaderWords)
    budget.grew(bytes)
  }
}

object Pages {

  /** Takes a record: its position, and the page and the byte where it lies. A Scala function would
    * box two numbers for each record.
    */
  trait RecordVisitor {
    def apply(position: Int, page: Array[Byte], at: Int): Unit
  }

  private val EmptyPages = new Array[Array[Byte]](0)
  private val NoSpilled = new Array[SpillFiles.SpilledPage](0)
  private val OnDisk = new Array[Byte](0)
  private val ArrayHeaderWords = 2
  private val StepBytesMin = 64
  private val SteppedSlots = 4
}
