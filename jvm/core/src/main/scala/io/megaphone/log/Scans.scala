// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

/** A scan of all keys of a family, in no order. */
private[log] final class HashScan(log: BinLog, index: Index) extends BinLog.Scan {
  private val slots = if (index == null) HashScan.NoSlots else index.snapshot
  private var slot = 0

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

private object HashScan {
  private val NoSlots = new Array[Long](0)
}

/** A scan of the keys from `from` until, and without, `until` (null: to the end), in order. */
private[log] final class RangeScan(log: BinLog, order: OrderedIndex, from: Array[Byte], until: Array[Byte]) extends BinLog.Scan {
  private val place = new OrderedIndex.Place
  private var isStarted = false
  private var isDone = order == null

  def next(): Boolean = {
    if (!isDone) {
      if (!isStarted) { log.seek(order, place, isAfter = false, from, 0, from.length); isStarted = true }
      // The cursor's key stays where it is, whatever has become of it: what comes after it now is what has not been seen.
      else if (!order.step(place)) log.seek(order, place, isAfter = true, cursor.bytes, cursor.keyOffset, cursor.keyBytes)
      isDone = place.isEnd
      if (!isDone) {
        log.moveTo(cursor, place.position)
        isDone = until != null && Words.compare(cursor.bytes, cursor.keyOffset, cursor.keyBytes, until, 0, until.length) >= 0
      }
    }
    !isDone
  }
}
