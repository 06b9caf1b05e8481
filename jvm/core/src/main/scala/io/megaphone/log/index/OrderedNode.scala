// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.index

import java.util

import io.megaphone.log.memory.{PagedRecord, Pages}

/** A node of an [[OrderedIndex]]: positions of records, ascending by key, and above the leaves the
  * child that each is the first of.
  */
private[log] final class OrderedNode(ofLeaf: Boolean) {
  import OrderedNode._

  var count = 0
  var positions: Array[Int] = NoPositions
  var children: Array[OrderedNode] = if (ofLeaf) null else NoChildren

  def isLeaf: Boolean = children == null

  /** The first place from `from` on whose key is not before the one given or, where `isAfter`,
    * comes after it; else the count.
    */
  def search(
      from: Int,
      isAfter: Boolean,
      pages: Pages,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Int = {
    var low = from
    var high = count
    while (low < high) {
      val middle = (low + high) >>> 1
      val comparison = PagedRecord.compareKey(pages, positions(middle), key, keyOffset, keyBytes)
      if (comparison < 0 || (isAfter && comparison == 0)) low = middle + 1 else high = middle
    }
    low
  }

  /** The child that holds a key, or would. The first position is not looked at: what comes before
    * all keys belongs to the first child.
    */
  def childOf(pages: Pages, key: Array[Byte], keyOffset: Int, keyBytes: Int): Int =
    search(1, isAfter = true, pages, key, keyOffset, keyBytes) - 1

  /** Sets the room of the arrays, which must not be less than the count. */
  def resize(capacity: Int): Unit = {
    positions = util.Arrays.copyOf(positions, capacity)
    if (!isLeaf) children = util.Arrays.copyOf(children, capacity)
  }

  /** Moves what stands from `from` on to `to`, for which there must be room. */
  def shift(from: Int, to: Int): Unit = {
    System.arraycopy(positions, from, positions, to, count - from)
    if (!isLeaf) System.arraycopy(children, from, children, to, count - from)
  }

  /** Heap bytes of the arrays. */
  def arrayBytes: Long = {
    def bytes(length: Int): Long = if (length == 0) 0 else (16 + length * 4L + 7) & ~7L
    bytes(positions.length) + (if (isLeaf) 0 else bytes(children.length))
  }
}

private object OrderedNode {
  private val NoPositions = new Array[Int](0)
  private val NoChildren = new Array[OrderedNode](0)
}
