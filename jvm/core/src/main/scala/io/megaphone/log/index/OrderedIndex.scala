// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.index

import java.util

import io.megaphone.log.memory.{PagedRecord, Pages}
import io.megaphone.log.record.{Record, Words}

/** A family's keys in the order of their unsigned bytes: a B+-tree over the positions of the live
  * records. The keys themselves stay in the log.
  *
  *   1. A node holds up to 64 positions, ascending by key. In a leaf they are the positions of the
  *      keys; in an inner node each is the first position below the child of the same place. So
  *      every position in the tree is that of a live record, and the log may drop all others.
  *   1. A full node moves its upper half to a new one. A key before all keys of a full leaf, or
  *      after them, starts a new leaf instead: keys inserted in order leave full leaves.
  *   1. A node less than a quarter full is merged with a neighbour, or takes a share of the
  *      neighbour's positions.
  *   1. Arrays are at most half as long again as needed: about six bytes a key if keys are inserted
  *      in random order.
  *
  * Methods that compare keys take the pages that hold the records.
  *
  * Threads: one, except `heapBytes`.
  */
final class OrderedIndex {
  import OrderedIndex._

  private[log] var root: OrderedNode = new OrderedNode(ofLeaf = true)
  private var keysCount = 0
  private var changesCount = 0
  private var arrayBytes = 0L
  private var nodesCount = 1

  /** Number of keys. */
  def size: Int = keysCount
  def heapBytes: Long = arrayBytes + nodesCount * NodeBytes + OwnBytes

  /** Adds the key of the record at `position`. Throws IllegalArgumentException if the index already
    * has the key.
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

  /** Removes the key of the record at `position`. Throws IllegalArgumentException if the index does
    * not have the key at this position.
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

  /** Replaces `position` by `to`, another record of the same key. Throws IllegalArgumentException
    * as `remove` does.
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

  /** Moves `place` to the first key that is equal to or greater than the key given or, if
    * `isAfter`, greater than it.
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

  /** Moves `place` to the next key, or past the last one. Returns false if keys were added or
    * removed since `place` was last moved: then use `seek`.
    */
  def step(place: Place): Boolean = place.changesCount == changesCount && {
    place.at += 1
    if (place.isEnd) place.goToNextLeaf()
    true
  }

  /** Calls `f` with each position in the order of the keys, and replaces the position by the one
    * that `f` returns.
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
        /* Otherwise keys inserted in descending order after a full leaf would each get a leaf of
         * their own. */
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
    if (node.count < NodeMax) {
      insert(node, at, position, child)
      null
    } else {
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

  /** Merges the child at `i` and the next one, or, if they hold too much for one node, makes them
    * equally full.
    */
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

  private def newNode(ofLeaf: Boolean): OrderedNode = {
    nodesCount += 1
    new OrderedNode(ofLeaf)
  }

  private def drop(node: OrderedNode): Unit = {
    nodesCount -= 1
    arrayBytes -= node.arrayBytes
  }
}

object OrderedIndex {
  private[log] val NodeMax = 64
  private[log] val NodeMin = NodeMax / 4
  private val JoinedMax = NodeMax * 3 / 4 // so that the next few keys do not split a merged node
  private[log] val NodeBytes = 24L
  private[log] val OwnBytes = 40L

  /** The place of a scan in an index. */
  final class Place {
    private[OrderedIndex] var leaf: OrderedNode = _
    private[OrderedIndex] var at = 0
    private[OrderedIndex] var changesCount = 0
    private[OrderedIndex] var depth = 0
    // The nodes above the leaf, from the root down, and the child of each that leads to the leaf.
    private var above = new Array[OrderedNode](1)
    private var children = new Array[Int](1)

    /** Descends from `leaf`, which is still an inner node, to its child at `i`. */
    private[OrderedIndex] def goDown(i: Int): Unit = {
      if (depth == above.length) {
        above = util.Arrays.copyOf(above, depth * 2)
        children = util.Arrays.copyOf(children, depth * 2)
      }
      above(depth) = leaf
      children(depth) = i
      depth += 1
      leaf = leaf.children(i)
    }

    /** Moves to the first key of the next leaf, if there is one. */
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

    /** Whether this place is past the last key. */
    def isEnd: Boolean = at == leaf.count
    def position: Int = leaf.positions(at)
  }
}
