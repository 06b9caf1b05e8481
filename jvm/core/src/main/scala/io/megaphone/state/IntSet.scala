// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import java.util

/** A set of ints that only grows: hashes, which the table scatters once more.
  *
  * Threads: one, except `heapBytes` and `from`.
  */
private[megaphone] final class IntSet {
  import IntSet._

  // Open addressing; 0 stands for a free place, so whether 0 is in the set is kept beside.
  @volatile private var table = new Array[Int](CapacityMin)
  @volatile private var hasZero = false
  private var used = 0

  def size: Int = used + (if (hasZero) 1 else 0)
  def heapBytes: Long = table.length * 4L + OwnBytes

  def contains(value: Int): Boolean =
    if (value == 0) hasZero else table(placeOf(table, value)) == value

  /** Adds a value. Returns false if it is there already. */
  def add(value: Int): Boolean =
    if (value == 0) { val isNew = !hasZero; hasZero = true; isNew }
    else {
      val place = placeOf(table, value)
      val isNew = table(place) == 0
      if (isNew) {
        table(place) = value
        used += 1
        if (used > table.length / 2) grow()
      }
      isNew
    }

  /** The values, in no order. */
  def iterator: Iterator[Int] =
    Option.when(hasZero)(0).iterator ++ table.iterator.filter(_ != 0)

  /** The least values from one on, ascending, at most so many. What is added meanwhile may be
    * missing.
    */
  def from(least: Int, max: Int): Array[Int] = {
    val found = iterator.filter(_ >= least).toArray
    util.Arrays.sort(found)
    found.take(max)
  }

  private def grow(): Unit = {
    val larger = new Array[Int](2 * table.length)
    table.foreach(value => if (value != 0) larger(placeOf(larger, value)) = value)
    table = larger
  }
}

private object IntSet {
  private val CapacityMin = 8
  private val OwnBytes = 40 // this object and its array's header

  /** The place of a value, or the free place for it. All hashes of one bin have the same low bits,
    * so the place goes by the high ones of a product.
    */
  private def placeOf(table: Array[Int], value: Int): Int = {
    val mask = table.length - 1
    var place = (value * 0x9e3779b9) >>> (32 - Integer.bitCount(mask))
    while (table(place) != 0 && table(place) != value) place = (place + 1) & mask
    place
  }
}
