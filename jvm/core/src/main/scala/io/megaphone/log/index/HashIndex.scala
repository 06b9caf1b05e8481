// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.index

/** An open-addressing hash index from key hash to the position of the key's live record; the keys
  * themselves stay in the log.
  *
  * A slot is one word: the 32-bit hash above, position + 1 below. 0 is a slot never used, a lower
  * half of 0 under any upper half one whose key was removed. Slots keep their place until the index
  * grows, so a scan may go on while its caller removes. One thread only.
  */
final class HashIndex {
  import HashIndex._

  private var slots: Array[Long] = NoSlots
  private var shift =
    0 // that leaves as many upper bits of a hash as a slot's number has: the array need not be asked for its length
  private var usedCount = 0 // live and removed slots
  private var liveCount = 0

  /** Live keys. */
  def size: Int = liveCount
  def heapBytes: Long = slots.length * 8L + OwnBytes

  /** The array as it stands: a scan holds on to it, and sees by `isCurrent` that the index has
    * grown since.
    */
  def snapshot: Array[Long] = slots
  def isCurrent(snapshot: Array[Long]): Boolean = snapshot eq slots

  /** First slot to probe for `hash`, or -1 in an empty index. */
  def probe(hash: Int): Int = if (shift == 0) -1 else start(hash)

  /** The slot that follows. */
  def next(slot: Int): Int = (slot + 1) & (slots.length - 1)
  def word(slot: Int): Long = slots(slot)

  /** A slot that points to this very position, or -1. There are two of them where, in a compaction,
    * a key has moved to where another one of its hash is yet to move from: then either will do for
    * either.
    */
  def slotAt(hash: Int, position: Int): Int = {
    val word = entry(hash, position)
    var slot = probe(hash)
    while (slot >= 0 && slots(slot) != word) slot = if (slots(slot) == Never) -1 else next(slot)
    slot
  }

  /** Points a live slot at another position. */
  def repoint(slot: Int, position: Int): Unit = slots(slot) = entry(hashOf(slots(slot)), position)

  /** Removes a live slot. */
  def remove(slot: Int): Unit = { slots(slot) = Removed; liveCount -= 1 }

  /** Calls `f` with the position of each live slot and points the slot at what `f` returns. */
  def foreach(f: Int => Int): Unit = {
    var slot = 0
    while (slot < slots.length) {
      if (isLive(slots(slot))) {
        val position = positionOf(slots(slot))
        val target = f(position)
        if (target != position) repoint(slot, target)
      }
      slot += 1
    }
  }

  /** Adds a key that is not there. */
  def add(hash: Int, position: Int): Unit = {
    if ((usedCount + 1) * 4 > slots.length * 3) grow()
    var slot = start(hash)
    while (isLive(slots(slot))) slot = next(slot)
    if (slots(slot) == Never) usedCount += 1
    slots(slot) = entry(hash, position)
    liveCount += 1
  }

  private def grow(): Unit = {
    val old = slots
    var capacity = CapacityMin
    while (capacity * 2 < (liveCount + 1) * 3)
      capacity <<= 1 // at most two thirds full after growing
    slots = new Array[Long](capacity)
    shift = Integer.numberOfLeadingZeros(capacity) + 1
    usedCount = liveCount
    var i = 0
    while (i < old.length) {
      val w = old(i)
      if (isLive(w)) {
        var slot = start(hashOf(w))
        while (slots(slot) != Never) slot = next(slot)
        slots(slot) = w
      }
      i += 1
    }
  }

  // Fibonacci hashing: the upper bits of a product depend on all bits of the hash.
  private def start(hash: Int): Int = (hash * -1640531527) >>> shift
}

object HashIndex {
  private val NoSlots = new Array[Long](0)
  private val CapacityMin = 4
  private val OwnBytes = 48 // itself and the head of its array
  private val Removed = 1L << 32
  val Never = 0L

  def isLive(word: Long): Boolean = word.toInt != 0
  def hashOf(word: Long): Int = (word >>> 32).toInt
  def positionOf(word: Long): Int = word.toInt - 1
  def entry(hash: Int, position: Int): Long = (hash.toLong << 32) | ((position + 1) & 0xffffffffL)
}
