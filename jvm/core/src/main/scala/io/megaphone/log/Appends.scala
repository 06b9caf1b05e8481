// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util

/** Which record each appending one goes on from, and how long the value is with it. Records come in the order of their positions; those that are dead
  * stay until the log is compacted. One thread only.
  */
private[log] final class Appends {
  private var positions, before, valueLengths = new Array[Int](Appends.CapacityMin)
  private var count = 0

  def heapBytes: Long = 3 * (positions.length * 4L + 16)

  /** @param valueBytes
    *   of the whole value, this record's own included
    */
  def add(position: Int, previous: Int, valueBytes: Int): Unit = {
    if (count == positions.length) {
      positions = util.Arrays.copyOf(positions, count * 2)
      before = util.Arrays.copyOf(before, count * 2)
      valueLengths = util.Arrays.copyOf(valueLengths, count * 2)
    }
    positions(count) = position
    before(count) = previous
    valueLengths(count) = valueBytes
    count += 1
  }

  /** Forgets the newest. */
  def dropLast(): Unit = count -= 1

  def previous(position: Int): Int = before(placeOf(position))
  def valueBytes(position: Int): Int = valueLengths(placeOf(position))

  private def placeOf(position: Int): Int = util.Arrays.binarySearch(positions, 0, count, position)
}

private object Appends {
  private val CapacityMin = 4
}
