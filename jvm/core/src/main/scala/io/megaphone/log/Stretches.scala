// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.lang.invoke.VarHandle
import java.util

/** Stretches of a log: those of the records that were taken in between the records of its tail.
  * They are added in the order of their positions.
  *
  * Threads: one, except `heapBytes`.
  */
private[log] final class Stretches {
  private var bounds = new Array[Int](Stretches.CapacityMin) // from, until, from, until …
  private var count = 0 // of bounds

  // Another thread may call `heapBytes` as soon as it sees this object.
  VarHandle.releaseFence()

  def heapBytes: Long = bounds.length * 4L + Stretches.OwnBytes

  /** Adds the positions from `from` to `until`, which is exclusive. */
  def add(from: Int, until: Int): Unit =
    if (count > 0 && bounds(count - 1) == from) bounds(count - 1) = until
    else {
      if (count == bounds.length) bounds = util.Arrays.copyOf(bounds, 2 * count)
      bounds(count) = from
      bounds(count + 1) = until
      count += 2
    }

  def contains(position: Int): Boolean = {
    val found = util.Arrays.binarySearch(bounds, 0, count, position)
    // At an even place a stretch begins; before an odd place one goes on.
    if (found >= 0) (found & 1) == 0 else (~found & 1) == 1
  }

  /** Their bounds: from, until, from, until … */
  def toArray: Array[Int] = util.Arrays.copyOf(bounds, count)

  /** The bounds of what lies in a range that has all stretches, and in none of them. */
  def gapsIn(from: Int, until: Int): Array[Int] = {
    val gaps = new Array[Int](count + 2)
    gaps(0) = from
    System.arraycopy(bounds, 0, gaps, 1, count)
    gaps(count + 1) = until
    gaps
  }
}

private object Stretches {
  private val CapacityMin = 4
  private val OwnBytes = 40 // this object and its array's header
}
