// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.index

import java.util

import io.megaphone.log.memory.{PagedRecord, Pages}

/** A node of an [[OrderedIndex]]: positions of records, ascending by key, and in an inner node the
  * child whose first position each is.
  */
private[log] final class OrderedNode(ofLeaf: Boolean) {
  import OrderedNode._

  var count = 0
  var positions: Array[Int] = NoPositions
  var children: Array[OrderedNode] = if (ofLeaf) null else NoChildren

  def isLeaf: Boolean = children == null

  /** Returns the first place from `from` on whose key is equal to or greater than the key given or,
    * if `isAfter`, greater than it; the count if there is none.
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

  /** Returns the child that holds a key, or would hold it. The first position is ignored: a key
    * before all others belongs to the first child.
    */
  def childOf(pages: Pages, key: Array[Byte], keyOffset: Int, keyBytes: Int): Int =
    search(1, isAfter = true, pages, key, keyOffset, keyBytes) - 1

  /** Sets the length of the arrays, which must not be less than the count. */
  def resize(capacity: Int): Unit = {
    positions = util.Arrays.copyOf(positions, capacity)
    if (!isLeaf) children = util.Arrays.copyOf(children, capacity)
  }

  /** Moves the entries from `from` on to `to`. The arrays must have room for them. */
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
