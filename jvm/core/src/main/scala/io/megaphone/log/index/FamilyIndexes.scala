// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.index

import java.util

import io.megaphone.log.record.Record

/** The indexes of a log's column families: a hash index for each and, if the family's number says
  * so (see [[Record]]), an ordered index. They are created with a family's first key.
  *
  * Threads: one, except `heapBytes`.
  */
private[log] final class FamilyIndexes {
  import FamilyIndexes._

  private var indexes = NoIndexes // by place
  private var orders = NoOrders // by ordered family

  /** Returns the hash index of a family, or null. */
  def of(family: Int): HashIndex = {
    val place = placeOf(family)
    if (place < indexes.length) indexes(place) else null
  }

  /** Returns the ordered index of an ordered family, or null. */
  def orderOf(family: Int): OrderedIndex = {
    val i = family - Record.OrderedFamilyMin
    if (i < orders.length) orders(i) else null
  }

  /** Creates a family's indexes. Throws IllegalArgumentException if its number is too large. */
  def add(family: Int): Unit = {
    require(
      family <= Record.FamilyMax,
      s"column family $family is out of range: at most ${Record.FamilyMax + 1} families are allowed"
    )
    val place = placeOf(family)
    if (place >= indexes.length) indexes = util.Arrays.copyOf(indexes, place + 1)
    if (Record.isOrdered(family)) {
      val i = family - Record.OrderedFamilyMin
      if (i >= orders.length) orders = util.Arrays.copyOf(orders, i + 1)
      orders(i) = new OrderedIndex
    }
    indexes(place) = new HashIndex
  }

  /** Calls `f(index, order)` for each family, always in the same order of families. `order` is null
    * if the family is not ordered.
    */
  def foreach(f: (HashIndex, OrderedIndex) => Unit): Unit =
    for (place <- indexes.indices)
      if (indexes(place) != null)
        f(indexes(place), if (isOrderedPlace(place)) orders(place >>> 1) else null)

  /** Number of live keys of all families. */
  def keyCount: Int = {
    var sum = 0
    indexes.foreach(i => if (i != null) sum += i.size)
    sum
  }

  def heapBytes: Long = {
    var sum = OwnBytes + listBytes(indexes.length) + listBytes(orders.length)
    indexes.foreach(i => if (i != null) sum += i.heapBytes)
    orders.foreach(o => if (o != null) sum += o.heapBytes)
    sum
  }
}

private object FamilyIndexes {
  private val NoIndexes = new Array[HashIndex](0)
  private val NoOrders = new Array[OrderedIndex](0)
  private val OwnBytes = 24L

  /** Bytes of an array of references, header and padding included; all logs share the empty one. */
  private def listBytes(length: Int): Int = if (length == 0) 0 else (16 + 4 * length + 7) & ~7

  /** The place of a family's index. Unordered and ordered families alternate, so the array is short
    * whichever kind is used.
    */
  private def placeOf(family: Int): Int =
    if (Record.isOrdered(family)) ((family - Record.OrderedFamilyMin) << 1) | 1 else family << 1
  private def isOrderedPlace(place: Int): Boolean = (place & 1) == 1
}
