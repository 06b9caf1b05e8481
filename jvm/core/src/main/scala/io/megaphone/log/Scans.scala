// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util.PriorityQueue

/** A scan of all keys of a family, in no order.
  *
  * Records lie all over the memory. Those that come next are fetched together, so that it is waited for once for all of them.
  */
private[log] final class HashScan(log: BinLog, index: Index) extends BinLog.Scan {
  val cursor = new BinLog.Cursor
  private val slots = if (index == null) HashScan.NoSlots else index.snapshot
  private var slot = 0
  private val ahead = new Array[Int](HashScan.AheadMax) // slots that come next
  private var aheadCount, aheadAt = 0
  private var fetched = 0L // what is read must be of use, or the compiler leaves it out

  def next(): Boolean = {
    while (aheadAt < aheadCount || lookAhead()) {
      val word = slots(ahead(aheadAt))
      aheadAt += 1
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

  private def lookAhead(): Boolean = {
    aheadAt = 0
    aheadCount = 0
    while (aheadCount < ahead.length && slot < slots.length) {
      val word = slots(slot)
      if (Index.isLive(word)) {
        fetched += log.prefetch(Index.positionOf(word))
        ahead(aheadCount) = slot
        aheadCount += 1
      }
      slot += 1
    }
    aheadCount > 0
  }
}

private object HashScan {
  private val AheadMax = 8
  private val NoSlots = new Array[Long](0)
}

/** A scan of the keys from `from` until, and without, `until` (null: to the end), in order, as keys and values were when it began.
  *
  *   1. The order tells which key comes next; a record that is newer than the scan leads back to the one it replaced, or is passed over where its key is
  *      new. Were new keys seen, a caller that puts a key behind the one it stands on would never come to an end.
  *   1. Of keys that are removed meanwhile, which the order knows no more, the log tells (`removed`).
  */
private[log] final class RangeScan(log: BinLog, order: OrderedIndex, from: Array[Byte], until: Array[Byte]) extends BinLog.Scan {
  val cursor = new BinLog.Cursor
  private val place = new OrderedIndex.Place
  private val begun = log.end
  private var gone: PriorityQueue[Integer] = _ // by key; most scans never have one
  private var isStarted, isInOrder = false
  private var isDone = order == null

  def next(): Boolean = {
    if (!isDone) {
      val ahead = nextInOrder()
      val behind = if (gone != null && !gone.isEmpty) gone.peek.intValue else BinLog.NoPosition
      isInOrder = behind == BinLog.NoPosition || (ahead != BinLog.NoPosition && log.compareKeys(ahead, behind) < 0)
      if (!isInOrder) gone.poll()
      val position = if (isInOrder) ahead else behind
      if (position != BinLog.NoPosition) log.moveTo(cursor, position) else { isDone = true; log.ended(this) }
    }
    !isDone
  }

  /** The batch has ended. */
  private[log] def end(): Unit = isDone = true

  /** A key of the order is about to be removed: its record. */
  private[log] def removed(order: OrderedIndex, position: Int): Unit =
    if (!isDone && (order eq this.order)) {
      val old = log.asOf(begun, position)
      val isAhead = old != BinLog.NoPosition &&
        (if (isStarted) log.compareKey(old, cursor.bytes, cursor.keyOffset, cursor.keyBytes) > 0 else log.compareKey(old, from, 0, from.length) >= 0)
      if (isAhead && isBefore(old)) {
        if (gone == null) gone = new PriorityQueue[Integer]((a: Integer, b: Integer) => log.compareKeys(a, b))
        gone.add(old)
        ()
      }
    }

  /** The record of the next key of the order that was there when the scan began, or NoPosition. */
  private def nextInOrder(): Int = {
    if (!isStarted) log.seek(order, place, isAfter = false, from, 0, from.length)
    // The cursor's key stays where it is, whatever has become of it: what comes after it now is what has not been seen.
    else if (!isInOrder || !order.step(place)) log.seek(order, place, isAfter = true, cursor.bytes, cursor.keyOffset, cursor.keyBytes)
    isStarted = true
    while (!place.isEnd && isBefore(place.position)) {
      val position = log.asOf(begun, place.position)
      if (position != BinLog.NoPosition) return position
      if (!order.step(place)) log.seekBehind(order, place)
    }
    BinLog.NoPosition
  }

  private def isBefore(position: Int): Boolean = until == null || log.compareKey(position, until, 0, until.length) < 0
}
