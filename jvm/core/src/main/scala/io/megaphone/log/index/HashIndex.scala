// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.index

import java.lang.invoke.VarHandle

/** An open-addressing hash index from a key's hash to the position of its live record. The keys
  * themselves stay in the log.
  *
  * A slot is one word: the 32-bit hash in the upper half, position + 1 in the lower half. A word of
  * 0 is a slot never used; a lower half of 0 under another upper half is a removed key. Slots keep
  * their place until the index grows, so a scan may continue while its caller removes keys.
  *
  * Threads: one, except `heapBytes`.
  */
final class HashIndex {
  import HashIndex._

  private var slots: Array[Long] = NoSlots
  // Leaves as many upper bits of a hash as a slot number has: no need to read the array's length.
  private var shift = 0
  private var usedCount = 0 // live and removed slots
  private var liveCount = 0

  // Another thread may call `heapBytes` as soon as it sees this object.
  VarHandle.releaseFence()

  /** Number of live keys. */
  def size: Int = liveCount
  def heapBytes: Long = slots.length * 8L + OwnBytes

  /** The current array of slots. A scan keeps it, and learns from `isCurrent` whether the index has
    * grown since.
    */
  def snapshot: Array[Long] = slots
  def isCurrent(snapshot: Array[Long]): Boolean = snapshot eq slots

  /** Returns the first slot to probe for `hash`, or -1 in an index that was never used. */
  def probe(hash: Int): Int = if (shift == 0) -1 else start(hash)

  /** Returns the slot to probe after `slot`. */
  def next(slot: Int): Int = (slot + 1) & (slots.length - 1)
  def word(slot: Int): Long = slots(slot)

  /** Returns a slot of this hash and position, or -1. During compaction two slots may match: one
    * key has just moved to a position that another key of equal hash has not left yet. Either slot
    * may then be updated for either key.
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
  def remove(slot: Int): Unit = {
    slots(slot) = Removed
    liveCount -= 1
  }

  /** Calls `f` with the position of each live slot and points the slot at the position returned. */
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

  /** Adds a key that the index does not have. */
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
    // At most two thirds full after growing.
    while (capacity * 2 < (liveCount + 1) * 3) capacity <<= 1
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
  private val OwnBytes = 48 // this object and its array's header
  private val Removed = 1L << 32
  val Never = 0L

  def isLive(word: Long): Boolean = word.toInt != 0
  def hashOf(word: Long): Int = (word >>> 32).toInt
  def positionOf(word: Long): Int = word.toInt - 1
  def entry(hash: Int, position: Int): Long = (hash.toLong << 32) | ((position + 1) & 0xffffffffL)
}
