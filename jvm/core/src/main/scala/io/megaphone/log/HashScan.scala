// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.index.HashIndex
import io.megaphone.log.record.Cursor

/** Scans all keys of a family, in no order.
  *
  * Records are scattered over memory. The next few are prefetched together, so that their cache
  * misses overlap.
  */
private[log] final class HashScan(log: BinLog, index: HashIndex) extends Scan {
  val cursor = new Cursor
  private val slots = if (index == null) HashScan.NoSlots else index.snapshot
  private var slot = 0
  private val ahead = new Array[Int](HashScan.AheadMax) // the next slots
  private var aheadCount, aheadAt = 0
  private var fetched = 0L // a use of the prefetched words, or the JIT would drop the loads

  def next(): Boolean = {
    while (aheadAt < aheadCount || lookAhead()) {
      val word = slots(ahead(aheadAt))
      aheadAt += 1
      if (HashIndex.isLive(word)) {
        log.moveTo(cursor, HashIndex.positionOf(word))
        /* After the index has grown, this snapshot no longer shows removals and updates: look the
         * key up in the index. */
        if (index.isCurrent(slots)) return true
        val now =
          log.slotOf(index, HashIndex.hashOf(word), cursor.bytes, cursor.keyOffset, cursor.keyBytes)
        if (now >= 0) {
          log.moveTo(cursor, HashIndex.positionOf(index.word(now)))
          return true
        }
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
