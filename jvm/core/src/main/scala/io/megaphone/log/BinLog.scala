// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util

/** The storage of one bin: an append-only log of records with a hash index over it.
  *
  *   1. `put` and `remove` append a record and repoint the index; nothing is overwritten in place, so bytes handed out stay valid for the batch.
  *   1. What was appended since `settle` is the ''tail''. It is the changelog of the batch as it stands, and `undo` takes it back by a list of the
  *      entries it repointed.
  *   1. `settle` makes the tail part of the prefix for good. The prefix is immutable: `prefix` hands it to other threads with no lock and no copy.
  *   1. `compact` rewrites the live records into new pages; a prefix handed out before keeps the old ones.
  *
  * One thread at a time writes (the holder of the lease on the worker's holding); hand-over between threads must publish safely. Keys and values are
  * byte ranges; the log never looks inside.
  */
final class BinLog {
  private var pages = new Pages
  private var indexes: Array[Index] = BinLog.NoIndexes // by column family
  private var undoEntries: Array[Long] = BinLog.NoUndo // (previous position + 1) << 32 | position of the new record
  private var undoCount = 0
  private var tailStart = 0
  private var tailWords = 0L
  private var liveWords = 0

  /** The record that the last successful `find` or scan step stands on. Valid until the next one. */
  val cursor = new BinLog.Cursor

  def isTouched: Boolean = undoCount > 0 || tailStart != pages.end

  /** Bytes of the records of the tail: the same wherever the log has come from, as the pages that they lie in are not. */
  def tailBytes: Long = tailWords << 3

  /** Bytes of the live records, and of all records with the gaps between them. */
  def liveBytes: Long = liveWords.toLong << 3
  def logBytes: Long = pages.end.toLong << 3
  def heapBytes: Long = pages.heapBytes + indexes.iterator.filter(_ != null).map(_.heapBytes).sum + undoEntries.length * 8L + 96

  /** Live keys of a family, and of all. */
  def keyCount(family: Int): Int = if (family < indexes.length && indexes(family) != null) indexes(family).size else 0
  def keyCount: Int = { var sum = 0; indexes.foreach(i => if (i != null) sum += i.size); sum }

  /** Looks a key up; on true the cursor stands on its record. */
  def find(family: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int): Boolean = {
    val index = existing(family)
    index != null && {
      val slot = slotOf(index, Words.hash(key, keyOffset, keyBytes), key, keyOffset, keyBytes)
      slot >= 0 && { moveTo(Index.positionOf(index.word(slot))); true }
    }
  }

  /** Sets a key's value. Throws IllegalArgumentException where key or value are too long for a record. */
  def put(family: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int, value: Array[Byte], valueOffset: Int, valueBytes: Int): Unit = {
    require(keyBytes <= Record.KeyBytesMax, s"a key of $keyBytes bytes is too long: at most ${Record.KeyBytesMax} are allowed")
    require(valueBytes <= Record.ValueBytesMax, s"a value of $valueBytes bytes is too long: at most ${Record.ValueBytesMax} are allowed")
    val hash = Words.hash(key, keyOffset, keyBytes)
    val index = indexFor(family)
    val position = append(Record.header(family, Record.Put, keyBytes, valueBytes), key, keyOffset, value, valueOffset)
    liveWords += Record.size(keyBytes, valueBytes) >>> 3
    val slot = slotOf(index, hash, key, keyOffset, keyBytes)
    if (slot < 0) {
      index.add(hash, position)
      remember(position, BinLog.NoPosition)
    } else {
      val previous = Index.positionOf(index.word(slot))
      liveWords -= sizeWords(previous)
      index.repoint(slot, position)
      remember(position, previous)
    }
  }

  /** Removes a key; false, and nothing appended, where it is not there. */
  def remove(family: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int): Boolean = {
    val index = existing(family)
    val slot = if (index == null) -1 else slotOf(index, Words.hash(key, keyOffset, keyBytes), key, keyOffset, keyBytes)
    slot >= 0 && {
      val previous = Index.positionOf(index.word(slot))
      val position = append(Record.header(family, Record.Remove, keyBytes, 0), key, keyOffset, key, keyOffset)
      liveWords -= sizeWords(previous)
      index.remove(slot)
      remember(position, previous)
      true
    }
  }

  /** A scan of a family's live keys: each `true` of `next` puts the scan's own cursor on a record. The owner may put and remove meanwhile: a key there
    * throughout is seen once, a removed one not after its removal.
    */
  def scan(family: Int): BinLog.Scan = new BinLog.Scan(this, existing(family))

  /** Takes the tail back: the log and the index are as `settle` left them. */
  def undo(): Unit = {
    var i = undoCount - 1
    while (i >= 0) {
      val position = undoEntries(i).toInt
      val previous = (undoEntries(i) >>> 32).toInt - 1
      val page = pages.page(position)
      val at = pages.offset(position)
      val header = Words.get(page, at)
      val index = indexes(Record.family(header))
      val hash = Words.hash(page, at + Record.HeaderBytes, Record.keyBytes(header))
      if (Record.kind(header) == Record.Remove) index.add(hash, previous)
      else {
        val slot = slotAt(index, hash, position)
        if (previous == BinLog.NoPosition) index.remove(slot) else index.repoint(slot, previous)
        liveWords -= Record.size(header) >>> 3
      }
      if (previous != BinLog.NoPosition) liveWords += sizeWords(previous)
      i -= 1
    }
    undoCount = 0
    tailWords = 0
    pages.truncate(tailStart)
  }

  /** Makes the tail part of the immutable prefix. */
  def settle(): Unit = {
    tailStart = pages.end
    tailWords = 0
    undoCount = 0
    if (undoEntries.length > BinLog.UndoKept) undoEntries = BinLog.NoUndo
  }

  /** The records appended since `settle`, in order. */
  def tail(): Records = new Records(pages, tailStart, pages.end)

  /** The records of the settled prefix, for any thread, however long it takes to read them. */
  def prefix(): Records = new Records(pages.prefix(tailStart), 0, tailStart)

  /** Applies records in order: a tail onto the log it was made on, or an image onto an empty log. Throws DamagedRecordsException where the bytes are no
    * records.
    */
  def apply(bytes: Array[Byte], offset: Int, length: Int): Unit =
    Records.foreach(bytes, offset, length) { (at, header) =>
      val keyAt = at + Record.HeaderBytes
      val keyBytes = Record.keyBytes(header)
      if (Record.kind(header) == Record.Remove) remove(Record.family(header), bytes, keyAt, keyBytes)
      else put(Record.family(header), bytes, keyAt, keyBytes, bytes, keyAt + Record.padded(keyBytes), Record.valueBytes(header))
    }

  /** The live records, tail included, as one byte array: the image of the bin as it stands. */
  def image(): Array[Byte] = {
    require(liveBytes <= Int.MaxValue - 64, s"the image of a bin is at most 2 GiB, this one has $liveBytes bytes: use more bins")
    val out = new Array[Byte](liveBytes.toInt)
    var at = 0
    foreachLive { position =>
      val size = sizeWords(position) << 3
      System.arraycopy(pages.page(position), pages.offset(position), out, at, size)
      at += size
      position
    }
    out
  }

  /** Rewrites the live records into new pages. Only on a settled log. */
  def compact(): Unit = {
    require(!isTouched, "only a settled log is compacted")
    val fresh = new Pages
    foreachLive { position =>
      val size = sizeWords(position) << 3
      val target = fresh.reserve(size)
      System.arraycopy(pages.page(position), pages.offset(position), fresh.page(target), fresh.offset(target), size)
      target
    }
    pages = fresh
    tailStart = fresh.end
  }

  /** Calls `f` with the position of each live record and points its slot at what `f` returns. */
  private def foreachLive(f: Int => Int): Unit =
    indexes.foreach { index =>
      if (index != null) {
        val slots = index.snapshot
        var slot = 0
        while (slot < slots.length) {
          if (Index.isLive(slots(slot))) {
            val position = Index.positionOf(slots(slot))
            val target = f(position)
            if (target != position) index.repoint(slot, target)
          }
          slot += 1
        }
      }
    }

  private[log] def moveTo(position: Int): Unit = moveTo(cursor, position)

  private[log] def moveTo(c: BinLog.Cursor, position: Int): Unit = {
    val page = pages.page(position)
    val at = pages.offset(position)
    val header = Words.get(page, at)
    c.bytes = page
    c.keyOffset = at + Record.HeaderBytes
    c.keyBytes = Record.keyBytes(header)
    c.valueOffset = c.keyOffset + Record.padded(c.keyBytes)
    c.valueBytes = Record.valueBytes(header)
  }

  /** Slot of a live key, or -1. */
  private[log] def slotOf(index: Index, hash: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int): Int = {
    var slot = index.probe(hash)
    if (slot >= 0) {
      var word = index.word(slot)
      while (word != Index.Never) {
        if (Index.hashOf(word) == hash && Index.isLive(word) && sameKey(Index.positionOf(word), key, keyOffset, keyBytes)) return slot
        slot = index.next(slot)
        word = index.word(slot)
      }
    }
    -1
  }

  private def slotAt(index: Index, hash: Int, position: Int): Int = {
    var slot = index.probe(hash)
    while (Index.positionOf(index.word(slot)) != position) slot = index.next(slot)
    slot
  }

  private def sameKey(position: Int, key: Array[Byte], keyOffset: Int, keyBytes: Int): Boolean = {
    val page = pages.page(position)
    val at = pages.offset(position)
    Record.keyBytes(Words.get(page, at)) == keyBytes && {
      val from = at + Record.HeaderBytes
      util.Arrays.equals(page, from, from + keyBytes, key, keyOffset, keyOffset + keyBytes)
    }
  }

  private def sizeWords(position: Int): Int = Record.size(Words.get(pages.page(position), pages.offset(position))) >>> 3

  private def append(header: Long, key: Array[Byte], keyOffset: Int, value: Array[Byte], valueOffset: Int): Int = {
    val position = pages.reserve(Record.size(header))
    tailWords += Record.size(header) >>> 3
    val page = pages.page(position)
    val at = pages.offset(position)
    val keyBytes = Record.keyBytes(header)
    val valueBytes = Record.valueBytes(header)
    Words.set(page, at, header)
    copyPadded(key, keyOffset, keyBytes, page, at + Record.HeaderBytes)
    copyPadded(value, valueOffset, valueBytes, page, at + Record.HeaderBytes + Record.padded(keyBytes))
    position
  }

  private def copyPadded(from: Array[Byte], fromOffset: Int, length: Int, to: Array[Byte], toOffset: Int): Unit = {
    if ((length & 7) != 0) Words.set(to, toOffset + (length & ~7), 0L) // a page may hold stale bytes of an undone tail
    System.arraycopy(from, fromOffset, to, toOffset, length)
  }

  private def remember(position: Int, previous: Int): Unit = {
    if (undoCount == undoEntries.length) undoEntries = util.Arrays.copyOf(undoEntries, math.max(8, undoCount * 2))
    undoEntries(undoCount) = ((previous + 1).toLong << 32) | position
    undoCount += 1
  }

  private def existing(family: Int): Index = if (family < indexes.length) indexes(family) else null

  private def indexFor(family: Int): Index = {
    if (family >= indexes.length) {
      require(family <= Record.FamilyMax, s"column family $family is out of range: at most ${Record.FamilyMax + 1} families are allowed")
      indexes = util.Arrays.copyOf(indexes, family + 1)
    }
    if (indexes(family) == null) indexes(family) = new Index
    indexes(family)
  }
}

object BinLog {
  private val NoIndexes = new Array[Index](0)
  private val NoUndo = new Array[Long](0)
  private val NoPosition = -1
  private val UndoKept = 1024 // entries; a larger list is given back when its batch is settled

  /** Where a record's key and value lie. The bytes stay as they are for the batch; the cursor moves. */
  final class Cursor {
    var bytes: Array[Byte] = _
    var keyOffset, keyBytes, valueOffset, valueBytes = 0
  }

  /** See [[BinLog.scan]]. */
  final class Scan private[log] (log: BinLog, index: Index) {
    private val slots = if (index == null) NoIndexSlots else index.snapshot
    private var slot = 0
    val cursor = new Cursor

    def next(): Boolean = {
      while (slot < slots.length) {
        val word = slots(slot)
        slot += 1
        if (Index.isLive(word)) {
          log.moveTo(cursor, Index.positionOf(word))
          // After the index has grown this array no longer hears of removals and updates: ask the index itself.
          if (index.isCurrent(slots)) return true
          val now = log.slotOf(index, Index.hashOf(word), cursor.bytes, cursor.keyOffset, cursor.keyBytes)
          if (now >= 0) { log.moveTo(cursor, Index.positionOf(index.word(now))); return true }
        }
      }
      false
    }
  }
  private val NoIndexSlots = new Array[Long](0)
}
