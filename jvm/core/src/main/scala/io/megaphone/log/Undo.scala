// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util

/** What each record of a log's tail has replaced: by it the tail is taken back, and a scan finds
  * what was there when it began. Records come in the order of their positions. One thread only, but
  * for `heapBytes`.
  */
private[log] final class Undo {
  private var entries =
    new Array[Long](Undo.CapacityMin) // (replaced position + 1) << 32 | position of the new record
  private var count = 0

  def heapBytes: Long = entries.length * 8L + Undo.OwnBytes

  /** @param replaced
    *   the record that the key had before, or NoPosition
    */
  def add(position: Int, replaced: Int): Unit = {
    if (count == entries.length) entries = util.Arrays.copyOf(entries, count * 2)
    entries(count) = ((replaced + 1).toLong << 32) | position
    count += 1
  }

  /** Calls `f(position, replaced)` for each record, the newest first. */
  def foreachBackwards(f: (Int, Int) => Unit): Unit = {
    var i = count - 1
    while (i >= 0) { f(entries(i).toInt, replacedBy(i)); i -= 1 }
  }

  /** See [[BinLog.asOf]]. */
  def asOf(end: Int, position: Int): Int = {
    var at = position
    while (at >= end) at = replacedBy(entryOf(at))
    at
  }

  /** Forgets all: the tail has become part of the log, or is taken back. */
  def clear(): Unit = count = 0

  /** Whether it takes too much memory beside a log of so many words to be kept for the next batch. */
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
  private val CapacityMin = 2 // entries: of many bins, a batch changes a key or two each
  private val LogShare =
    64 // the share of a log's words: of very many bins, each a small log, none keeps a list
  private val OwnBytes = 40 // itself and the head of its array
}
