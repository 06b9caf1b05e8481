// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.record.Cursor
import io.megaphone.log.record.Words

/** Merges scans of several logs into one, in the order of their keys. No two scans may have a key
  * in common. A tree of losers (Knuth, The Art of Computer Programming, volume 3, section 5.4.1):
  *
  *   1. Each inner node holds the scan that lost there; the overall winner stands on the next key.
  *      After it has advanced, it plays again up to the root: one comparison a level, where a heap
  *      needs two.
  *   1. Most comparisons need only the first 16 bytes of the keys. These lie side by side here,
  *      while the records are scattered over memory.
  */
final class MergedScan(scans: Iterator[Scan]) extends Scan {
  import MergedScan._

  private var all: Array[Scan] = _ // a scan that has ended is null
  private var heads: Array[Long] = _ // two words a scan
  private var losers: Array[Int] = _ // at 0 the winner; leaf i belongs at all.length + i

  def cursor: Cursor = all(losers(0)).cursor

  def next(): Boolean = {
    if (all == null) start()
    else if (all.length > 0 && all(losers(0)) != null) {
      advance(losers(0))
      play(losers(0))
    }
    all.length > 0 && all(losers(0)) != null
  }

  private def start(): Unit = {
    all = scans.filter(_.next()).toArray
    heads = new Array[Long](2 * all.length)
    all.indices.foreach(setHead)
    losers = Array.fill(all.length)(NoOne)
    all.indices.foreach(play)
  }

  private def advance(i: Int): Unit = {
    if (!all(i).next()) all(i) = null
    setHead(i)
  }

  private def setHead(i: Int): Unit = {
    heads(2 * i) = head(all(i), 0)
    heads(2 * i + 1) = head(all(i), 8)
  }

  /** Plays a scan up the tree until it must wait for an opponent that has not played yet, or the
    * overall winner is known.
    */
  private def play(i: Int): Unit = {
    var winner = i
    var node = (all.length + i) >>> 1
    while (node > 0) {
      val other = losers(node)
      if (other == NoOne) {
        losers(node) = winner
        return
      }
      if (isBefore(other, winner)) {
        losers(node) = winner
        winner = other
      }
      node >>>= 1
    }
    losers(0) = winner
  }

  private def isBefore(one: Int, other: Int): Boolean =
    if (heads(2 * one) != heads(2 * other))
      java.lang.Long.compareUnsigned(heads(2 * one), heads(2 * other)) < 0
    else if (heads(2 * one + 1) != heads(2 * other + 1))
      java.lang.Long.compareUnsigned(heads(2 * one + 1), heads(2 * other + 1)) < 0
    else all(one) != null && (all(other) == null || compare(all(one).cursor, all(other).cursor) < 0)
}

private object MergedScan {
  private val NoOne = -1
  private val LastHead = -1L // of a scan that has ended: no key's head is greater

  /** Returns eight bytes of a scan's key as a big-endian unsigned number. A shorter key is padded
    * with the zeros of its record.
    */
  private def head(scan: Scan, from: Int): Long =
    if (scan == null) LastHead
    else {
      val c = scan.cursor
      if (c.keyBytes <= from) 0
      else java.lang.Long.reverseBytes(Words.get(c.bytes, c.keyOffset + from))
    }

  private def compare(one: Cursor, other: Cursor): Int =
    Words.compare(
      one.bytes,
      one.keyOffset,
      one.keyBytes,
      other.bytes,
      other.keyOffset,
      other.keyBytes
    )
}
