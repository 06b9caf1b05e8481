// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import io.megaphone.errors.BinTooLargeException

/** The arithmetic of a log's address space: which slot a position lies in, and where each slot
  * begins. [[Pages]] holds the page of each slot.
  *
  * Slots come in levels of four: 4 × 1 KiB, 4 × 2 KiB, … up to 64 KiB, then all of 64 KiB. So a log
  * of a few records is small, and the slot of a position is found without a table. A position is a
  * word number (bytes / 8).
  */
private[log] object PageLayout {
  private val SlotBytesMin = 1024
  private val UnitWordsShift = 7 // log2 of the words of the smallest slot, the unit

  /** The level of the largest slots: 1 KiB << 6 = 64 KiB. The page that a log is writing cannot
    * leave the heap, and larger arrays are a burden to some collectors.
    */
  private val TopLevel = 6
  private val TopSlot = TopLevel << 2
  private val TopUnits = 4 * ((1 << TopLevel) - 1)

  /** Bytes of `slot`. */
  def slotBytes(slot: Int): Int = SlotBytesMin << math.min(slot >>> 2, TopLevel)

  /** First position of `slot`. */
  def startOf(slot: Int): Int = {
    val units =
      if (slot >= TopSlot) TopUnits + ((slot - TopSlot) << TopLevel)
      else {
        val level = slot >>> 2
        4 * ((1 << level) - 1) + ((slot & 3) << level)
      }
    units << UnitWordsShift
  }

  /** Slot of a position. */
  def slotOf(position: Int): Int = {
    val units = position >>> UnitWordsShift
    if (units >= TopUnits) TopSlot + ((units - TopUnits) >>> TopLevel)
    else {
      val level = 31 - Integer.numberOfLeadingZeros((units >>> 2) + 1)
      (level << 2) + ((units - 4 * ((1 << level) - 1)) >>> level)
    }
  }

  /** Bytes from the first position of `slot` to `position`. */
  def offsetIn(slot: Int, position: Int): Int = (position - startOf(slot)) << 3

  /** The position after a record of `size` bytes. Throws BinTooLargeException if there is none: a
    * log is so long at most that its positions are Ints.
    */
  def endAfter(position: Int, size: Int): Int = {
    val end = position + (size >>> 3)
    if (position < 0 || end <= position) throw new BinTooLargeException(Int.MaxValue.toLong << 3)
    end
  }
}
