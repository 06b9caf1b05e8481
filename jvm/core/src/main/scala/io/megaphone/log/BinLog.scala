// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.index.{FamilyIndexes, HashIndex, OrderedIndex}
import io.megaphone.log.memory.{HeapBudget, PagedRecord, Pages, Records}
import io.megaphone.log.record.{Record, Words}
import io.megaphone.log.record.Cursor

/** The storage of one bin: an append-only log of records with a hash index over it.
  *
  *   1. `put` and `remove` append a record and repoint the index; nothing is overwritten in place,
  *      so bytes handed out stay valid for the batch.
  *   1. What was appended since `settle` is the ''tail''. It is the changelog of the batch as it
  *      stands, and `undo` takes it back by a list of the entries it repointed.
  *   1. `settle` makes the tail part of the prefix for good. The prefix is immutable: `prefix`
  *      hands it to other threads with no lock and no copy.
  *   1. `compact` rewrites the live records into new pages; a prefix handed out before keeps the
  *      old ones.
  *   1. `append` lengthens a value by a record of what is new: long lists are not written again for
  *      each element. Who reads the value is given all of it, put together; images and compacted
  *      logs have it in one record.
  *   1. Where [[HeapBudget]] is short, pages that are full lie on disk; the indexes stay in memory.
  *   1. A family whose number says so (see [[Record]]) has an order over its keys, too, kept as
  *      records come: `range` and `prefix` scan it.
  *
  * One thread at a time uses it (the holder of the lease on the worker's holding); hand-over
  * between threads must publish safely. Keys and values are byte ranges; the log never looks
  * inside.
  */
final class BinLog(budget: HeapBudget = HeapBudget.Unlimited) extends HeapBudget.User {
  private var pages = new Pages(budget)
  private val families = new FamilyIndexes
  private var lastFamily =
    -1 // the family asked for last, and its index: spares a look into memory that has gone cold
  private var lastIndex: HashIndex = _
  private var replaced: Undo = _ // once anything has been put or removed
  private var appends: Appends = _ // once there is any
  private var ranges: OpenRanges = _ // while there are any
  private var tailStart = 0
  private var tailWords = 0
  private var liveWords = 0

  def isTouched: Boolean = tailStart != pages.end

  /** Bytes of the records of the tail: the same wherever the log has come from, as the pages that
    * they lie in are not.
    */
  def tailBytes: Long = tailWords.toLong << 3

  /** Bytes of the live records, and of all records with the gaps between them. */
  def liveBytes: Long = liveWords.toLong << 3
  def logBytes: Long = pages.end.toLong << 3
  def heapBytes: Long = {
    val (lengthened, undone) = (appends, replaced) // another thread may ask
    var sum = pages.heapBytes + families.heapBytes + BinLog.OwnBytes
    if (lengthened != null) sum += lengthened.heapBytes
    if (undone != null) sum += undone.heapBytes
    sum
  }

  def bytesOnDisk: Long = pages.bytesOnDisk

  /** Live keys of a family, and of all. */
  def keyCount(family: Int): Int = {
    val index = existing(family); if (index == null) 0 else index.size
  }
  def keyCount: Int = families.keyCount

  /** Looks a key up; on true the cursor stands on its record. */
  def find(
      family: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int,
      cursor: Cursor
  ): Boolean = {
    val index = existing(family)
    val slot = slotOf(index, key, keyOffset, keyBytes)
    slot >= 0 && { moveTo(cursor, HashIndex.positionOf(index.word(slot))); true }
  }

  /** Whether a key is there. */
  def has(family: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int): Boolean =
    slotOf(existing(family), key, keyOffset, keyBytes) >= 0

  /** Sets a key's value. Throws IllegalArgumentException where key or value are too long for a
    * record.
    */
  def put(
      family: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int,
      value: Array[Byte],
      valueOffset: Int,
      valueBytes: Int
  ): Unit =
    write(family, Record.Put, key, keyOffset, keyBytes, value, valueOffset, valueBytes)

  /** Adds bytes behind the value of a key; sets it where there is none. Throws as `put` does, of
    * the whole value.
    */
  def append(
      family: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int,
      value: Array[Byte],
      valueOffset: Int,
      valueBytes: Int
  ): Unit =
    write(family, Record.Append, key, keyOffset, keyBytes, value, valueOffset, valueBytes)

  /** Removes a key; false, and nothing appended, where it is not there. */
  def remove(family: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int): Boolean = {
    val index = existing(family)
    val slot = slotOf(index, key, keyOffset, keyBytes)
    slot >= 0 && {
      val previous = HashIndex.positionOf(index.word(slot))
      val position = writeRecord(
        Record.header(family, Record.Remove, keyBytes, 0),
        key,
        keyOffset,
        key,
        keyOffset
      )
      liveWords -= sizeWords(previous)
      index.remove(slot)
      if (Record.isOrdered(family)) {
        val order = families.orderOf(family)
        if (ranges != null) ranges.removed(order, previous)
        reorder(family, previous, BinLog.NoPosition)
      }
      remember(position, previous)
      true
    }
  }

  /** A scan of a family's live keys: each `true` of `next` puts the scan's own cursor on a record.
    * The owner may put and remove meanwhile: a key there throughout is seen once, a removed one not
    * after its removal.
    */
  def scan(family: Int): Scan = new HashScan(this, existing(family))

  /** A scan of the keys of an ordered family from `from` on (null or empty: from the first) until
    * and without `until` (null: to the last), ascending by their bytes without sign. The owner may
    * put and remove meanwhile: keys and values are seen as they were when `range` was called. The
    * scan ends with the batch. The two arrays must stay as they are while the scan goes on. Throws
    * IllegalArgumentException where the family keeps no order.
    */
  def range(family: Int, from: Array[Byte], until: Array[Byte]): Scan = {
    require(
      Record.isOrdered(family),
      s"column family $family keeps no order: only those from ${Record.OrderedFamilyMin} on do"
    )
    val order = families.orderOf(family)
    val scan = new RangeScan(this, order, if (from == null) BinLog.NoBytes else from, until)
    if (order != null) {
      if (ranges == null) ranges = new OpenRanges
      ranges.add(scan)
    }
    scan
  }

  /** A scan of the keys of an ordered family that begin with `prefix` (null or empty: of all), as
    * `range` does it.
    */
  def prefix(family: Int, prefix: Array[Byte]): Scan =
    range(family, prefix, if (prefix == null) null else Words.successor(prefix))

  /** Takes the tail back: the log and the index are as `settle` left them. */
  def undo(): Unit = {
    if (replaced != null) replaced.foreachBackwards(takeBack(_, _))
    endTail()
    pages.truncate(tailStart)
  }

  /** Makes the tail part of the immutable prefix. */
  def settle(): Unit = {
    pages.forget()
    tailStart = pages.end
    endTail()
  }

  private def takeBack(position: Int, previous: Int): Unit = {
    val page = pages.page(position)
    val at = pages.offset(position)
    val header = Words.get(page, at)
    val family = Record.family(header)
    val index = existing(family)
    val hash = Words.hash(page, at + Record.HeaderBytes, Record.keyBytes(header))
    val isRemove = Record.kind(header) == Record.Remove
    if (Record.isOrdered(family))
      reorder(family, if (isRemove) BinLog.NoPosition else position, previous)
    if (isRemove) index.add(hash, previous)
    else {
      val slot = index.slotAt(hash, position)
      if (previous == BinLog.NoPosition) index.remove(slot) else index.repoint(slot, previous)
      liveWords -= sizeWords(position)
      if (Record.kind(header) == Record.Append) appends.dropLast()
    }
    if (previous != BinLog.NoPosition) liveWords += sizeWords(previous)
  }

  private def endTail(): Unit = {
    if (replaced != null) {
      if (replaced.isLargeBeside(tailStart)) replaced = null else replaced.clear()
    }
    tailWords = 0
    if (ranges != null) { ranges.end(); ranges = null }
  }

  /** The records appended since `settle`, in order. */
  def tail(): Records = new Records(pages, tailStart, pages.end)

  /** The records of the settled prefix, for any thread, however long it takes to read them. */
  def prefix(): Records = new Records(pages.prefix(tailStart), 0, tailStart)

  /** Applies records in order: a tail onto the log it was made on, or an image onto an empty log.
    * Throws DamagedRecordsException where the bytes are no records.
    */
  def apply(bytes: Array[Byte], offset: Int, length: Int): Unit =
    Records.foreach(bytes, offset, length) { (at, header) =>
      val keyAt = at + Record.HeaderBytes
      val keyBytes = Record.keyBytes(header)
      val family = Record.family(header)
      val valueAt = keyAt + Record.padded(keyBytes)
      if (Record.kind(header) == Record.Remove) remove(family, bytes, keyAt, keyBytes)
      else
        write(
          family,
          Record.kind(header),
          bytes,
          keyAt,
          keyBytes,
          bytes,
          valueAt,
          Record.valueBytes(header)
        )
    }

  /** The live records, tail included, as one byte array: the image of the bin as it stands. */
  def image(): Array[Byte] = { val out = new Array[Byte](imageBytes); copyImage(out, 0); out }

  def imageBytes: Int = {
    require(
      liveBytes <= Int.MaxValue - 64,
      s"the image of a bin is at most 2 GiB, this one has $liveBytes bytes: use more bins"
    )
    liveBytes.toInt
  }

  /** Copies the image to `out` from `offset` on, which must have room for `imageBytes`: what has an
    * order in it, the rest as it was written.
    */
  def copyImage(out: Array[Byte], offset: Int): Unit = {
    val bytes = new LiveRecords(pages, families, appends).copyTo(out, offset)
    require(bytes == imageBytes, s"an image of $imageBytes bytes has $bytes")
  }

  /** Rewrites the live records into new pages, in order where there is one, a value in one record.
    * Only on a settled log. Throws SpillException; the log is then as it was, for nothing points to
    * the new pages before all are written.
    */
  def compact(): Unit = {
    require(!isTouched, "only a settled log is compacted")
    val fresh = new Pages(budget, expectedWords = liveWords)
    new LiveRecords(pages, families, appends).moveTo(fresh)
    pages = fresh
    appends = null
    tailStart = fresh.end
  }

  /** Puts pages on disk, oldest first, until so many bytes of heap are free or no more can be;
    * gives how many are. What was handed out stays as it is. Throws SpillException.
    */
  def spill(bytes: Long): Long = pages.spill(bytes)

  /** Writes anew what lies in files that have little else in them. Throws SpillException. */
  def repack(): Unit = pages.repack()

  private[log] def seek(
      order: OrderedIndex,
      place: OrderedIndex.Place,
      isAfter: Boolean,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Unit =
    order.seek(place, isAfter, pages, key, keyOffset, keyBytes)

  /** Goes behind the key that `place` stands on. */
  private[log] def seekBehind(order: OrderedIndex, place: OrderedIndex.Place): Unit = {
    val page = pages.page(place.position)
    val at = pages.offset(place.position)
    seek(
      order,
      place,
      isAfter = true,
      page,
      at + Record.HeaderBytes,
      Record.keyBytes(Words.get(page, at))
    )
  }

  private[log] def ended(scan: RangeScan): Unit =
    if (ranges != null) { ranges.ended(scan); if (ranges.isEmpty) ranges = null }

  private[log] def compareKey(position: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int): Int =
    PagedRecord.compareKey(pages, position, key, keyOffset, keyBytes)
  private[log] def compareKeys(one: Int, other: Int): Int =
    PagedRecord.compareKeys(pages, one, other)

  /** Has the processor fetch a record that lies in memory; what it gives means nothing. */
  private[log] def prefetch(position: Int): Long = pages.prefetch(position)

  /** The position behind the last record. */
  private[log] def end: Int = pages.end

  /** Where the key of a live record had its record when the log ended at `end`, a position of the
    * tail or its start; NoPosition where it had none.
    */
  private[log] def asOf(end: Int, position: Int): Int =
    if (replaced == null) position else replaced.asOf(end, position)

  private[log] def moveTo(c: Cursor, position: Int): Unit =
    if (!Appends.isOne(appends, pages, position)) PagedRecord.moveTo(pages, position, c)
    else {
      val bytes = new Array[Byte](sizeWords(position) << 3)
      appends.merge(pages, position, bytes, 0)
      c.set(bytes, 0)
    }

  /** Slot of a live key, or -1; the index may be null. */
  private def slotOf(index: HashIndex, key: Array[Byte], keyOffset: Int, keyBytes: Int): Int =
    if (index == null) -1
    else slotOf(index, Words.hash(key, keyOffset, keyBytes), key, keyOffset, keyBytes)

  /** Slot of a live key of this hash, or -1. */
  private[log] def slotOf(
      index: HashIndex,
      hash: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Int = {
    var slot = index.probe(hash)
    if (slot >= 0) {
      var word = index.word(slot)
      while (word != HashIndex.Never) {
        if (
          HashIndex.hashOf(word) == hash && HashIndex.isLive(word) && PagedRecord.hasKey(
            pages,
            HashIndex.positionOf(word),
            key,
            keyOffset,
            keyBytes
          )
        )
          return slot
        slot = index.next(slot)
        word = index.word(slot)
      }
    }
    -1
  }

  private def header(position: Int): Long = PagedRecord.header(pages, position)

  /** Words of a live key's record; where its value is in several, those of the one that would hold
    * all of it.
    */
  private def sizeWords(position: Int): Int =
    Appends.sizeBytes(appends, position, header(position)) >>> 3

  private def write(
      family: Int,
      kind: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int,
      value: Array[Byte],
      valueOffset: Int,
      valueBytes: Int
  ): Unit = {
    require(
      keyBytes <= Record.KeyBytesMax,
      s"a key of $keyBytes bytes is too long: at most ${Record.KeyBytesMax} are allowed"
    )
    val hash = Words.hash(key, keyOffset, keyBytes)
    val index = indexFor(family)
    /* The lookup waits for memory twice, for the slot and for the record; begun first, it leaves
     * the processor the copying to do meanwhile. */
    val slot = slotOf(index, hash, key, keyOffset, keyBytes)
    val previous = if (slot < 0) BinLog.NoPosition else HashIndex.positionOf(index.word(slot))
    val isAppend = kind == Record.Append
    val wholeBytes =
      if (isAppend && slot >= 0)
        valueBytes.toLong + Appends.valueBytes(appends, previous, header(previous))
      else valueBytes.toLong
    require(
      wholeBytes <= Record.ValueBytesMax,
      s"a value of $wholeBytes bytes is too long: at most ${Record.ValueBytesMax} are allowed"
    )
    val position = writeRecord(
      Record.header(family, kind, keyBytes, valueBytes),
      key,
      keyOffset,
      value,
      valueOffset
    )
    liveWords += Record.size(keyBytes, wholeBytes.toInt) >>> 3
    if (slot < 0) index.add(hash, position)
    else {
      liveWords -= sizeWords(previous)
      index.repoint(slot, position)
    }
    if (isAppend) {
      if (appends == null) appends = new Appends
      appends.add(position, previous, wholeBytes.toInt)
    }
    if (Record.isOrdered(family)) reorder(family, previous, position)
    remember(position, previous)
  }

  private def writeRecord(
      header: Long,
      key: Array[Byte],
      keyOffset: Int,
      value: Array[Byte],
      valueOffset: Int
  ): Int = {
    val position = PagedRecord.append(pages, header, key, keyOffset, value, valueOffset)
    tailWords += Record.size(header) >>> 3
    position
  }

  private def remember(position: Int, previous: Int): Unit = {
    if (replaced == null) replaced = new Undo
    replaced.add(position, previous)
  }

  /** Tells a family's order that a key's record was at `from` and is at `to`; NoPosition where
    * there was none, or is none any more.
    */
  private def reorder(family: Int, from: Int, to: Int): Unit = {
    val order = families.orderOf(family)
    if (from == BinLog.NoPosition) order.add(pages, to)
    else if (to == BinLog.NoPosition) order.remove(pages, from)
    else order.repoint(pages, from, to)
  }

  private def existing(family: Int): HashIndex =
    if (family == lastFamily) lastIndex
    else {
      val index = families.of(family)
      if (index != null) { lastFamily = family; lastIndex = index }
      index
    }

  private def indexFor(family: Int): HashIndex = {
    val index = existing(family)
    if (index != null) index else { families.add(family); existing(family) }
  }
}

object BinLog {
  private val NoBytes = new Array[Byte](0)
  private[log] val NoPosition = -1
  private val OwnBytes =
    120 // of objects that each log has: itself, the pages, and the head of their list
}
