// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.io.IOException
import java.lang.invoke.VarHandle

import io.megaphone.log.index.{FamilyIndexes, HashIndex, OrderedIndex}
import io.megaphone.log.memory.{
  ArraySink, DamagedRecordsException, HeapBudget, PagedRecord, Pages, Pieces, Records,
  SpillException
}
import io.megaphone.log.record.{Record, Words}
import io.megaphone.log.record.Cursor

/** The storage of one bin: an append-only log of records with a hash index over it.
  *
  *   1. `put` and `remove` append a record and repoint the index. Nothing is overwritten in place,
  *      so bytes handed out stay valid for the batch.
  *   1. The records appended since `settle` are the ''tail'', which is the changelog of the batch.
  *      `undo` reverts it by a list of the index entries that it repointed.
  *   1. `settle` makes the tail part of the immutable prefix. `prefix` hands the prefix to other
  *      threads without a lock or a copy.
  *   1. `compact` rewrites the live records into new pages. A prefix handed out before keeps the
  *      old ones.
  *   1. `append` extends a value by a record of the new bytes only, so a long list is not rewritten
  *      for each element. A reader gets the whole value, joined; images and compacted logs have it
  *      in one record.
  *   1. `takeIn` adds records that are settled already and lay elsewhere until then. They lie
  *      between those of the tail, and belong to the prefix once the tail has ended.
  *   1. If [[HeapBudget]] is short, full pages lie on disk; the indexes stay in memory.
  *   1. A family whose number says so (see [[Record]]) also has an ordered index, which each write
  *      updates; `range` and `prefix` scan it.
  *
  * Keys and values are byte ranges; the log never looks inside.
  *
  * Threads: one at a time (the holder of the lease on the worker's holding), except `heapBytes` and
  * `heapBytesLeftTo`. A hand-over between threads must publish safely; `Records` of a prefix may
  * then be read by any.
  *
  * Called twice: without a tail, `settle` and `undo` change no record, but end the ordered scans.
  */
final class BinLog(budget: HeapBudget = HeapBudget.Unlimited) extends HeapBudget.User {
  private var pages = new Pages(budget)
  private val families = new FamilyIndexes
  // The family used last and its index: saves a look into cold memory.
  private var lastFamily = -1
  private var lastIndex: HashIndex = _
  private var replaced: Undo = _ // null until the first put or removal
  private var appends: Appends = _ // null while no value spans several records
  private var ranges: OpenRanges = _ // null while there are none
  private var taken: Stretches = _ // null while nothing was taken in beside a tail
  private var tailStart = 0
  private var tailWords = 0
  private var liveWords = 0

  // Another thread may call `heapBytes` as soon as it sees this object.
  VarHandle.releaseFence()

  def isTouched: Boolean = tailWords > 0

  /** Bytes of the tail's records. Unlike the layout of the pages, this does not depend on how the
    * log was built.
    */
  def tailBytes: Long = tailWords.toLong << 3

  /** Bytes of the live records. */
  def liveBytes: Long = liveWords.toLong << 3

  /** Bytes of all records and of the gaps between them. */
  def logBytes: Long = pages.end.toLong << 3
  def heapBytes: Long = {
    val (lengthened, undone, stretches) = (appends, replaced, taken) // any thread may call this
    var sum = pages.heapBytes + families.heapBytes + BinLog.OwnBytes
    if (lengthened != null) sum += lengthened.heapBytes
    if (undone != null) sum += undone.heapBytes
    if (stretches != null) sum += stretches.heapBytes
    sum
  }

  def bytesOnDisk: Long = pages.bytesOnDisk

  /** How often tasks have used the log since somebody counted last: who uses it adds to it. */
  private[megaphone] var accesses: Long = 0

  /** Number of live keys of a family. */
  def keyCount(family: Int): Int = {
    val index = existing(family)
    if (index == null) 0 else index.size
  }

  /** Number of live keys of all families. */
  def keyCount: Int = families.keyCount

  /** Looks a key up; if it returns true, the cursor is on the key's record. */
  def find(
      family: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int,
      cursor: Cursor
  ): Boolean = {
    val index = existing(family)
    val slot = slotOf(index, key, keyOffset, keyBytes)
    slot >= 0 && {
      moveTo(cursor, HashIndex.positionOf(index.word(slot)))
      true
    }
  }

  /** Whether a key exists. */
  def has(family: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int): Boolean =
    slotOf(existing(family), key, keyOffset, keyBytes) >= 0

  /** Sets a key's value. Throws IllegalArgumentException if the key or the value is too long for a
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

  /** Appends bytes to a key's value, or sets the value if the key does not exist. Throws as `put`
    * does, if the whole value is too long.
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

  /** Removes a key. Returns false, and appends nothing, if the key does not exist. */
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

  /** Returns a scan of a family's live keys, in no order. The owner may put and remove during the
    * scan: a key that exists throughout is seen once, a removed key is not seen after its removal.
    */
  def scan(family: Int): Scan = new HashScan(this, existing(family))

  /** Returns a scan of the keys of an ordered family from `from` (inclusive; null or empty: from
    * the first) to `until` (exclusive; null: to the last), ascending by unsigned bytes. The owner
    * may put and remove during the scan, which sees keys and values as they were when `range` was
    * called. The scan ends with the batch. The caller must not change the two arrays during the
    * scan. Throws IllegalArgumentException if the family keeps no order.
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

  /** Returns a scan, as `range` does, of the keys of an ordered family that begin with `prefix`
    * (null or empty: of all keys).
    */
  def prefix(family: Int, prefix: Array[Byte]): Scan =
    range(family, prefix, if (prefix == null) null else Words.successor(prefix))

  /** Undoes the tail: the log and the indexes are as `settle` left them, with what was taken in
    * since. Throws SpillException if that finds no room any more; the log must then be dropped.
    */
  def undo(): Unit = {
    if (replaced != null) replaced.foreachBackwards(takeBack(_, _))
    val stretches = taken
    val kept = if (stretches == null) Vector.empty else unlinked(stretches.toArray)
    endTail()
    pages.truncate(tailStart)
    kept.foreach(piece => takeIn(piece, 0, piece.length))
  }

  /** Makes the tail part of the immutable prefix. */
  def settle(): Unit = {
    pages.forget()
    tailStart = pages.end
    endTail()
  }

  /** Takes in settled records that lay elsewhere: puts of keys that this log has never had. They
    * are no part of the tail, and `undo` keeps them. An ordered scan of a family that had a key
    * when it began sees them, unless it has passed their places: they were there. Throws
    * DamagedRecordsException if the bytes are not such records: those before it are in the log.
    * Throws SpillException, and IOException if the thread is interrupted while it writes to disk;
    * none of them is in the log then.
    */
  def takeIn(bytes: Array[Byte], offset: Int, length: Int): Unit = {
    val from = pages.end
    val hasTail = isTouched
    try Records.foreach(bytes, offset, length)(takeInRecord(bytes, _, _))
    catch {
      case e @ (_: SpillException | _: IOException) =>
        unlinked(Array(from, pages.end))
        pages.truncate(from)
        throw e
    } finally
      if (!hasTail) tailStart = pages.end
      else if (pages.end > from) {
        if (taken == null) taken = new Stretches
        taken.add(from, pages.end)
      }
  }

  private def takeInRecord(bytes: Array[Byte], at: Int, header: Long): Unit = {
    val family = Record.family(header)
    val keyAt = at + Record.HeaderBytes
    val keyBytes = Record.keyBytes(header)
    val hash = Words.hash(bytes, keyAt, keyBytes)
    val index = indexFor(family)
    if (Record.kind(header) != Record.Put || slotOf(index, hash, bytes, keyAt, keyBytes) >= 0)
      throw new DamagedRecordsException("expected a put of a key that the log does not have")
    val valueAt = keyAt + Record.padded(keyBytes)
    val position = PagedRecord.append(pages, header, bytes, keyAt, bytes, valueAt)
    liveWords += Record.size(header) >>> 3
    index.add(hash, position)
    if (Record.isOrdered(family)) reorder(family, BinLog.NoPosition, position)
  }

  /** Takes the records of some stretches, all of them live, out of the indexes. Returns them, in
    * pieces.
    */
  private def unlinked(bounds: Array[Int]): Vector[Array[Byte]] = {
    val pieces = Records.copied(new Records(pages, bounds).foreachPiece(BinLog.PieceBytes))
    var i = 0
    while (i < bounds.length) {
      pages.foreachRecord(bounds(i), bounds(i + 1)) { (position, page, at) =>
        val header = Words.get(page, at)
        val family = Record.family(header)
        val index = families.of(family)
        val hash = Words.hash(page, at + Record.HeaderBytes, Record.keyBytes(header))
        if (Record.isOrdered(family)) reorder(family, position, BinLog.NoPosition)
        index.remove(index.slotAt(hash, position))
        liveWords -= Record.size(header) >>> 3
      }
      i += 2
    }
    pieces
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
    taken = null
    if (ranges != null) {
      ranges.end()
      ranges = null
    }
  }

  /** The records appended since `settle`, in order. */
  def tail(): Records = new Records(
    pages,
    if (taken == null) Array(tailStart, pages.end) else taken.gapsIn(tailStart, pages.end)
  )

  /** The records of the settled prefix; any thread may read them, at any later time. It lacks what
    * was taken in beside a tail that is not settled.
    */
  def prefix(): Records = new Records(pages.prefix(tailStart), Array(0, tailStart))

  /** Heap bytes of the pages that a prefix handed out before keeps, although this log has spilled
    * them or was compacted. Any thread may ask; while the log changes, it is about so many.
    */
  def heapBytesLeftTo(prefix: Records): Long = prefix.heapBytesBeside(pages)

  /** Applies records in order: a tail to the log that it was made on, or an image to an empty log.
    * Throws DamagedRecordsException if the bytes are not records.
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

  /** Returns the image of the bin: its live records, tail included, as one byte array. */
  def image(): Array[Byte] = {
    val out = new Array[Byte](imageBytes)
    copyImage(out, 0)
    out
  }

  /** Bytes of the image. Throws IllegalArgumentException if they do not fit in one array. */
  def imageBytes: Int = {
    require(liveBytes <= Int.MaxValue - 64, s"an array holds at most 2 GiB, not $liveBytes bytes")
    liveBytes.toInt
  }

  /** Calls `f(array, length)` for each piece of the image, which are whole records, in the order of
    * `copyImage`. `f` must not keep the array.
    */
  def foreachImagePiece(maxBytes: Int)(f: (Array[Byte], Int) => Unit): Unit = {
    var bytes = 0L
    val pieces = new Pieces(maxBytes, liveBytes, (a, length) => { bytes += length; f(a, length) })
    liveRecords.copyTo(pieces)
    pieces.end()
    require(bytes == liveBytes, s"an image of $liveBytes bytes has $bytes")
  }

  /** Copies the image to `out` from `offset` on, which must have room for `imageBytes`. Ordered
    * families are in key order, the others in the order in which they were written.
    */
  def copyImage(out: Array[Byte], offset: Int): Unit = {
    val sink = new ArraySink(out, offset)
    liveRecords.copyTo(sink)
    val bytes = sink.end - offset
    require(bytes == imageBytes, s"an image of $imageBytes bytes has $bytes")
  }

  /** Rewrites the live records into new pages: ordered families in key order, each value in one
    * record. Throws IllegalArgumentException if there is a tail. Throws SpillException; the log is
    * then unchanged, because nothing points to the new pages before all records are written.
    */
  def compact(): Unit = {
    require(!isTouched, "only a settled log is compacted")
    val fresh = new Pages(budget, expectedWords = liveWords)
    liveRecords.moveTo(fresh)
    pages = fresh
    appends = null
    tailStart = fresh.end
  }

  /** Spills full pages to disk, oldest first, until `bytes` of heap are free or no further page can
    * leave. Returns the bytes freed. What was handed out does not change. Throws SpillException.
    */
  def spill(bytes: Long): Long = pages.spill(bytes)

  /** Rewrites spilled pages whose files have few live pages left. Throws SpillException. */
  def repack(): Unit = pages.repack()

  /** The beginning of a survey, of the settled prefix, for another thread to make. */
  def draft(keys: => KeyReader): Survey.Draft =
    new Survey.Draft(pages.prefix(tailStart), pages, keys)

  private[log] def pagesNow: Pages = pages

  /** The live records as they are now. */
  private[log] def liveRecords: LiveRecords = new LiveRecords(pages, families, appends)

  private[log] def seek(
      order: OrderedIndex,
      place: OrderedIndex.Place,
      isAfter: Boolean,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Unit =
    order.seek(place, isAfter, pages, key, keyOffset, keyBytes)

  /** Moves `place` past the key that it is on. */
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
    if (ranges != null) {
      ranges.ended(scan)
      if (ranges.isEmpty) ranges = null
    }

  private[log] def compareKey(position: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int): Int =
    PagedRecord.compareKey(pages, position, key, keyOffset, keyBytes)
  private[log] def compareKeys(one: Int, other: Int): Int =
    PagedRecord.compareKeys(pages, one, other)

  /** Prefetches a record if its page is on the heap. The result is meaningless; it keeps the JIT
    * from dropping the load.
    */
  private[log] def prefetch(position: Int): Long = pages.prefetch(position)

  /** The position after the last record. */
  private[log] def end: Int = pages.end

  /** Returns the record that the key of the record at `position` had when the log ended at `end`,
    * which must not be below the end of the last settled record then; NoPosition if the key did not
    * exist then. What was taken in since counts as there.
    */
  private[log] def asOf(end: Int, position: Int): Int = {
    var at = position
    while (at >= end && at >= tailStart && !isTaken(at)) at = replaced.replacedAt(at)
    at
  }

  private def isTaken(position: Int) = taken != null && taken.contains(position)

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

  /** Words of a live key's record. For a value spread over several records: the size of the one
    * record that would hold it all.
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
    /* The lookup waits for memory twice: for the slot and for the record. Started first, it
     * overlaps with the copying below. */
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

  /** Reports to a family's ordered index that a key's record was at `from` and is at `to`;
    * NoPosition if the key did not exist before, or does not exist now.
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
    if (index != null) index
    else {
      families.add(family)
      existing(family)
    }
  }
}

object BinLog {
  private val NoBytes = new Array[Byte](0)
  private[log] val NoPosition = -1
  private val PieceBytes = 32 << 20
  private val OwnBytes = 128 // this object, its Pages, and the header of their list
}
