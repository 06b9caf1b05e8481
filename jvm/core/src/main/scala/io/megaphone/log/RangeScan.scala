// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util.PriorityQueue

import io.megaphone.log.index.OrderedIndex
import io.megaphone.log.record.Cursor

/** Scans an ordered family from `from` (inclusive) to `until` (exclusive; null: to the end), with
  * the keys and values that existed when the scan began.
  *
  *   1. The ordered index finds the next key. A record newer than the scan leads back to the record
  *      it replaced; if its key is new, it is skipped. Otherwise a caller that puts a key after
  *      each key it sees would never reach the end.
  *   1. The log reports keys that are removed during the scan (`removed`), because the index no
  *      longer has them.
  */
private[log] final class RangeScan(
    log: BinLog,
    order: OrderedIndex,
    from: Array[Byte],
    until: Array[Byte]
) extends Scan {
  val cursor = new Cursor
  private val place = new OrderedIndex.Place
  private val begun = log.end
  private var gone: PriorityQueue[Integer] = _ // removed keys, in order; null in most scans
  private var isStarted, isInOrder = false
  private var isDone = order == null

  def next(): Boolean = {
    if (!isDone) {
      val ahead = nextInOrder()
      val behind = if (gone != null && !gone.isEmpty) gone.peek.intValue else BinLog.NoPosition
      isInOrder = behind == BinLog.NoPosition ||
        (ahead != BinLog.NoPosition && log.compareKeys(ahead, behind) < 0)
      if (!isInOrder) gone.poll()
      val position = if (isInOrder) ahead else behind
      if (position != BinLog.NoPosition) log.moveTo(cursor, position)
      else {
        isDone = true
        log.ended(this)
      }
    }
    !isDone
  }

  /** Ends the scan, because the batch has ended. */
  private[log] def end(): Unit = isDone = true

  /** Reports that the key of the record at `position` is about to be removed from `order`. */
  private[log] def removed(order: OrderedIndex, position: Int): Unit =
    if (!isDone && (order eq this.order)) {
      val old = log.asOf(begun, position)
      val isAhead = old != BinLog.NoPosition &&
        (if (isStarted) log.compareKey(old, cursor.bytes, cursor.keyOffset, cursor.keyBytes) > 0
         else log.compareKey(old, from, 0, from.length) >= 0)
      if (isAhead && isBefore(old)) {
        if (gone == null)
          gone = new PriorityQueue[Integer]((a: Integer, b: Integer) => log.compareKeys(a, b))
        gone.add(old)
        ()
      }
    }

  /** Returns the record, as of the scan's beginning, of the next key that is still in the index and
    * existed then; NoPosition if there is none.
    */
  private def nextInOrder(): Int = {
    if (!isStarted) log.seek(order, place, isAfter = false, from, 0, from.length)
    /* The cursor keeps its key even if that key was removed meanwhile; everything after it is still
     * unseen. */
    else if (!isInOrder || !order.step(place))
      log.seek(order, place, isAfter = true, cursor.bytes, cursor.keyOffset, cursor.keyBytes)
    isStarted = true
    while (!place.isEnd && isBefore(place.position)) {
      val position = log.asOf(begun, place.position)
      if (position != BinLog.NoPosition) return position
      if (!order.step(place)) log.seekBehind(order, place)
    }
    BinLog.NoPosition
  }

  private def isBefore(position: Int): Boolean =
    until == null || log.compareKey(position, until, 0, until.length) < 0
}
