// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.index.HashIndex
import io.megaphone.log.record.Cursor

/** A scan of all keys of a family, in no order.
  *
  * Records lie all over the memory. Those that come next are fetched together, so that it is waited
  * for once for all of them.
  */
private[log] final class HashScan(log: BinLog, index: HashIndex) extends Scan {
  val cursor = new Cursor
  private val slots = if (index == null) HashScan.NoSlots else index.snapshot
  private var slot = 0
  private val ahead = new Array[Int](HashScan.AheadMax) // slots that come next
  private var aheadCount, aheadAt = 0
  private var fetched = 0L // what is read must be of use, or the compiler leaves it out

  def next(): Boolean = {
    while (aheadAt < aheadCount || lookAhead()) {
      val word = slots(ahead(aheadAt))
      aheadAt += 1
      if (HashIndex.isLive(word)) {
        log.moveTo(cursor, HashIndex.positionOf(word))
        /* After the index has grown this array no longer hears of removals and updates: ask the
         * index itself. */
        if (index.isCurrent(slots)) return true
        val now =
          log.slotOf(index, HashIndex.hashOf(word), cursor.bytes, cursor.keyOffset, cursor.keyBytes)
        if (now >= 0) { log.moveTo(cursor, HashIndex.positionOf(index.word(now))); return true }
      }
    }
    false
  }

  private def lookAhead(): Boolean = {
    aheadAt = 0
    aheadCount = 0
    while (aheadCount < ahead.length && slot < slots.length) {
      val word = slots(slot)
      if (HashIndex.isLive(word)) {
        fetched += log.prefetch(HashIndex.positionOf(word))
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
