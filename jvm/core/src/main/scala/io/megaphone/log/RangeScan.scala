// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util.PriorityQueue

import io.megaphone.log.index.OrderedIndex
import io.megaphone.log.record.Cursor

/** A scan of the keys from `from` until, and without, `until` (null: to the end), in order, as keys
  * and values were when it began.
  *
  *   1. The order tells which key comes next; a record that is newer than the scan leads back to
  *      the one it replaced, or is passed over where its key is new. Were new keys seen, a caller
  *      that puts a key behind the one it stands on would never come to an end.
  *   1. Of keys that are removed meanwhile, which the order knows no more, the log tells
  *      (`removed`).
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
  private var gone: PriorityQueue[Integer] = _ // by key; most scans never have one
  private var isStarted, isInOrder = false
  private var isDone = order == null

  def next(): Boolean = {
    if (!isDone) {
      val ahead = nextInOrder()
      val behind = if (gone != null && !gone.isEmpty) gone.peek.intValue else BinLog.NoPosition
      isInOrder = behind == BinLog.NoPosition || (ahead != BinLog.NoPosition && log.compareKeys(
        ahead,
        behind
      ) < 0)
      if (!isInOrder) gone.poll()
      val position = if (isInOrder) ahead else behind
      if (position != BinLog.NoPosition) log.moveTo(cursor, position)
      else { isDone = true; log.ended(this) }
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
        (if (isStarted) log.compareKey(old, cursor.bytes, cursor.keyOffset, cursor.keyBytes) > 0
         else log.compareKey(old, from, 0, from.length) >= 0)
      if (isAhead && isBefore(old)) {
        if (gone == null)
          gone = new PriorityQueue[Integer]((a: Integer, b: Integer) => log.compareKeys(a, b))
        gone.add(old)
        ()
      }
    }

  /** The record of the next key of the order that was there when the scan began, or NoPosition. */
  private def nextInOrder(): Int = {
    if (!isStarted) log.seek(order, place, isAfter = false, from, 0, from.length)
    /* The cursor's key stays where it is, whatever has become of it: what comes after it now is
     * what has not been seen. */
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
