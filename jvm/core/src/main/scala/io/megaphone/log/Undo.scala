// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.lang.invoke.VarHandle
import java.util

/** For each record of a log's tail, the record that it replaced. The log undoes its tail by this
  * list, and a scan finds the records that were live when it began. Records are added in the order
  * of their positions.
  *
  * Threads: one, except `heapBytes`.
  */
private[log] final class Undo {
  // (replaced position + 1) << 32 | position of the new record
  private var entries = new Array[Long](Undo.CapacityMin)
  private var count = 0

  // Another thread may call `heapBytes` as soon as it sees this object.
  VarHandle.releaseFence()

  def heapBytes: Long = entries.length * 8L + Undo.OwnBytes

  /** @param replaced
    *   position of the key's previous record, or NoPosition
    */
  def add(position: Int, replaced: Int): Unit = {
    if (count == entries.length) {
      val factor = if (count <= Undo.FewMax) 4 else 2
      entries = util.Arrays.copyOf(entries, count * factor)
    }
    entries(count) = ((replaced + 1).toLong << 32) | position
    count += 1
  }

  /** Calls `f(position, replaced)` for each record, newest first. */
  def foreachBackwards(f: (Int, Int) => Unit): Unit = {
    var i = count - 1
    while (i >= 0) {
      f(entries(i).toInt, replacedBy(i))
      i -= 1
    }
  }

  /** The record that the one at `position`, which is in the list, replaced; NoPosition if none. */
  def replacedAt(position: Int): Int = replacedBy(entryOf(position))

  /** Forgets all records, because the tail was settled or undone. */
  def clear(): Unit = count = 0

  /** Whether this list is too large, next to a log of `logWords` words, to be kept for the next
    * batch.
    */
  def isLargeBeside(logWords: Int): Boolean = entries.length > logWords / Undo.LogShare

  private def replacedBy(entry: Int): Int = (entries(entry) >>> 32).toInt - 1

  private def entryOf(position: Int): Int = {
    var low = 0
    var high = count - 1
    while (low < high) {
      val middle = (low + high) >>> 1
      if (entries(middle).toInt < position) low = middle + 1 else high = middle
    }
    low
  }
}

private object Undo {

  /** Entries. With many bins, a batch changes only a few keys of each. */
  private val CapacityMin = 4

  /** Up to so many entries, a longer list costs less than making and copying it twice. */
  private val FewMax = 64

  /** A list may take 1/64 of its log's words: if bins are many and small, no list is kept. */
  private val LogShare = 64
  private val OwnBytes = 40 // this object and its array's header
}
