// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.index

import java.util

import io.megaphone.log.memory.{PagedRecord, Pages}
import io.megaphone.log.record.{Record, Words}

/** The order of a family's keys, by their bytes without sign: a B+-tree over the positions of the
  * live records; the keys themselves stay in the log.
  *
  *   1. A node holds up to 64 positions, ascending by key. In a leaf they are those of the keys;
  *      above, each is the first position below the child beside it. So every position in the tree
  *      is that of a live record, and the log may drop all others.
  *   1. A full node gives its upper half to a new one. A key in front of a full leaf, or behind it,
  *      begins a leaf instead: keys that come in order leave full leaves.
  *   1. A node under a quarter full joins a neighbour, or is given a share of what the neighbour
  *      has.
  *   1. Arrays are as long as they must be and at most half as long again: about six bytes a key
  *      where keys come at random.
  *
  * What compares keys is handed the pages that the records lie in. One thread only.
  */
final class OrderedIndex {
  import OrderedIndex._

  private[log] var root: OrderedNode = new OrderedNode(ofLeaf = true)
  private var keysCount = 0
  private var changesCount = 0
  private var arrayBytes = 0L
  private var nodesCount = 1

  /** Keys. */
  def size: Int = keysCount
  def heapBytes: Long = arrayBytes + nodesCount * NodeBytes + OwnBytes

  /** Adds the key of the record at `position`. Throws IllegalArgumentException where it is there
    * already.
    */
  def add(pages: Pages, position: Int): Unit = {
    val page = pages.page(position)
    val at = pages.offset(position)
    val right = add(
      root,
      position,
      pages,
      page,
      at + Record.HeaderBytes,
      Record.keyBytes(Words.get(page, at))
    )
    if (right != null) {
      val left = root
      root = newNode(ofLeaf = false)
      insert(root, 0, left.positions(0), left)
      insert(root, 1, right.positions(0), right)
    }
    keysCount += 1
    changesCount += 1
  }

  /** Removes the key of the record at `position`. Throws IllegalArgumentException where this is not
    * its live record.
    */
  def remove(pages: Pages, position: Int): Unit = {
    val page = pages.page(position)
    val at = pages.offset(position)
    remove(
      root,
      position,
      pages,
      page,
      at + Record.HeaderBytes,
      Record.keyBytes(Words.get(page, at))
    )
    if (!root.isLeaf && root.count == 1) {
      val only = root.children(0)
      drop(root)
      root = only
    }
    keysCount -= 1
    changesCount += 1
  }

  /** Points the key of the record at `position` at another record of the same key. Throws
    * IllegalArgumentException as `remove` does.
    */
  def repoint(pages: Pages, position: Int, to: Int): Unit = {
    val page = pages.page(position)
    val at = pages.offset(position)
    repoint(
      root,
      position,
      to,
      pages,
      page,
      at + Record.HeaderBytes,
      Record.keyBytes(Words.get(page, at))
    )
  }

  /** Puts `place` on the first key that is not before the one given or, where `isAfter`, that comes
    * after it.
    */
  def seek(
      place: Place,
      isAfter: Boolean,
      pages: Pages,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Unit = {
    place.depth = 0
    place.leaf = root
    while (!place.leaf.isLeaf) place.goDown(place.leaf.childOf(pages, key, keyOffset, keyBytes))
    place.at = place.leaf.search(0, isAfter, pages, key, keyOffset, keyBytes)
    if (place.isEnd) place.goToNextLeaf()
    place.changesCount = changesCount
  }

  /** Puts `place` on the next key, or behind the last one; false where keys have come or gone since
    * it was put where it is: `seek` then.
    */
  def step(place: Place): Boolean = place.changesCount == changesCount && {
    place.at += 1
    if (place.isEnd) place.goToNextLeaf()
    true
  }

  /** Calls `f` with each position in the order of the keys, and takes what it returns for the key's
    * position from then on.
    */
  def foreach(f: Int => Int): Unit = foreach(root, f)

  private def foreach(node: OrderedNode, f: Int => Int): Unit = {
    var i = 0
    while (i < node.count) {
      if (node.isLeaf) node.positions(i) = f(node.positions(i))
      else {
        foreach(node.children(i), f)
        node.positions(i) = node.children(i).positions(0)
      }
      i += 1
    }
  }

  /** Returns the node that was split off on the right of `node`, or null. */
  private def add(
      node: OrderedNode,
      position: Int,
      pages: Pages,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): OrderedNode =
    if (node.isLeaf) {
      val at = node.search(0, isAfter = false, pages, key, keyOffset, keyBytes)
      require(
        at == node.count || PagedRecord
          .compareKey(pages, node.positions(at), key, keyOffset, keyBytes) != 0,
        s"the key at $position is in order already"
      )
      insertOrSplit(node, at, position, null)
    } else {
      val i = node.childOf(pages, key, keyOffset, keyBytes)
      val child = node.children(i)
      val split = add(child, position, pages, key, keyOffset, keyBytes)
      node.positions(i) = child.positions(0)
      if (split == null) null
      else if (i + 1 < node.count && split.count + node.children(i + 1).count <= NodeMax) {
        // Or keys that come in descending order behind a full leaf would have a leaf each.
        move(split, 0, node.children(i + 1), 0, split.count)
        drop(split)
        node.positions(i + 1) = node.children(i + 1).positions(0)
        null
      } else insertOrSplit(node, i + 1, split.positions(0), split)
    }

  private def insertOrSplit(
      node: OrderedNode,
      at: Int,
      position: Int,
      child: OrderedNode
  ): OrderedNode =
    if (node.count < NodeMax) { insert(node, at, position, child); null }
    else {
      val middle = if (node.isLeaf && (at == 0 || at == NodeMax)) at else NodeMax / 2
      val right = newNode(node.isLeaf)
      move(node, middle, right, 0, NodeMax - middle)
      if (at < middle || at == 0) insert(node, at, position, child)
      else insert(right, at - middle, position, child)
      right
    }

  private def remove(
      node: OrderedNode,
      position: Int,
      pages: Pages,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Unit =
    if (node.isLeaf) close(node, placeOf(node, position, pages, key, keyOffset, keyBytes), 1)
    else {
      val i = node.childOf(pages, key, keyOffset, keyBytes)
      val child = node.children(i)
      remove(child, position, pages, key, keyOffset, keyBytes)
      if (child.count < NodeMin) balance(node, math.max(i - 1, 0))
      else node.positions(i) = child.positions(0)
    }

  /** Joins the child at `i` and the next one, or makes them equal where they hold too much for one. */
  private def balance(node: OrderedNode, i: Int): Unit = {
    val left = node.children(i)
    val right = node.children(i + 1)
    val moved = (right.count - left.count) / 2
    if (left.count + right.count <= JoinedMax) {
      move(right, 0, left, left.count, right.count)
      drop(right)
      close(node, i + 1, 1)
    } else {
      if (moved > 0) move(right, 0, left, left.count, moved)
      else move(left, left.count + moved, right, 0, -moved)
      node.positions(i + 1) = right.positions(0)
    }
    node.positions(i) = left.positions(0)
  }

  private def repoint(
      node: OrderedNode,
      position: Int,
      to: Int,
      pages: Pages,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Unit =
    if (node.isLeaf) node.positions(placeOf(node, position, pages, key, keyOffset, keyBytes)) = to
    else {
      val i = node.childOf(pages, key, keyOffset, keyBytes)
      repoint(node.children(i), position, to, pages, key, keyOffset, keyBytes)
      node.positions(i) = node.children(i).positions(0)
    }

  private def placeOf(
      leaf: OrderedNode,
      position: Int,
      pages: Pages,
      key: Array[Byte],
      keyOffset: Int,
      keyBytes: Int
  ): Int = {
    val at = leaf.search(0, isAfter = false, pages, key, keyOffset, keyBytes)
    require(
      at < leaf.count && leaf.positions(at) == position,
      s"the record at $position is not in order"
    )
    at
  }

  private def insert(node: OrderedNode, at: Int, position: Int, child: OrderedNode): Unit = {
    open(node, at, 1)
    node.positions(at) = position
    if (child != null) node.children(at) = child
  }

  private def move(from: OrderedNode, fromAt: Int, to: OrderedNode, toAt: Int, count: Int): Unit = {
    open(to, toAt, count)
    System.arraycopy(from.positions, fromAt, to.positions, toAt, count)
    if (!from.isLeaf) System.arraycopy(from.children, fromAt, to.children, toAt, count)
    close(from, fromAt, count)
  }

  private def open(node: OrderedNode, at: Int, count: Int): Unit = {
    if (node.count + count > node.positions.length) resize(node, node.count + count)
    node.shift(at, at + count)
    node.count += count
  }

  private def close(node: OrderedNode, at: Int, count: Int): Unit = {
    node.shift(at + count, at)
    node.count -= count
    if (!node.isLeaf)
      util.Arrays.fill(
        node.children.asInstanceOf[Array[AnyRef]],
        node.count,
        node.count + count,
        null
      )
    if (node.count <= node.positions.length / 2) resize(node, node.count)
  }

  private def resize(node: OrderedNode, needed: Int): Unit = {
    arrayBytes -= node.arrayBytes
    node.resize(math.min(NodeMax, needed + (needed + 1) / 2))
    arrayBytes += node.arrayBytes
  }

  private def newNode(ofLeaf: Boolean): OrderedNode = { nodesCount += 1; new OrderedNode(ofLeaf) }
  private def drop(node: OrderedNode): Unit = { nodesCount -= 1; arrayBytes -= node.arrayBytes }
}

object OrderedIndex {
  private[log] val NodeMax = 64
  private[log] val NodeMin = NodeMax / 4
  private val JoinedMax =
    NodeMax * 3 / 4 // so that what was joined is not split again by the next few keys
  private[log] val NodeBytes = 24L
  private[log] val OwnBytes = 40L

  /** Where a scan stands. */
  final class Place {
    private[OrderedIndex] var leaf: OrderedNode = _
    private[OrderedIndex] var at = 0
    private[OrderedIndex] var changesCount = 0
    private[OrderedIndex] var depth = 0
    private var above = new Array[OrderedNode](
      1
    ) // the nodes above the leaf, from the root down, and which child of each leads to it
    private var children = new Array[Int](1)

    /** From the inner node that `leaf` is yet to the child at `i`. */
    private[OrderedIndex] def goDown(i: Int): Unit = {
      if (depth == above.length) {
        above = util.Arrays.copyOf(above, depth * 2);
        children = util.Arrays.copyOf(children, depth * 2)
      }
      above(depth) = leaf
      children(depth) = i
      depth += 1
      leaf = leaf.children(i)
    }

    /** To the first key of the next leaf, if there is one. */
    private[OrderedIndex] def goToNextLeaf(): Unit = {
      var up = depth - 1
      while (up >= 0 && children(up) + 1 == above(up).count) up -= 1
      if (up >= 0) {
        leaf = above(up)
        depth = up
        goDown(children(up) + 1)
        while (!leaf.isLeaf) goDown(0)
        at = 0
      }
    }

    /** Behind the last key. */
    def isEnd: Boolean = at == leaf.count
    def position: Int = leaf.positions(at)
  }
}
