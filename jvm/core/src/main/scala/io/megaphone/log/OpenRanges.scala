// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util

import io.megaphone.log.index.OrderedIndex

/** The ordered scans of a log that have begun and not ended, so that the log can report removed
  * keys to them. A scan that its caller has dropped is garbage-collected.
  */
private[log] final class OpenRanges {
  private val scans =
    util.Collections.newSetFromMap(new util.WeakHashMap[RangeScan, java.lang.Boolean](4))

  def add(scan: RangeScan): Unit = {
    scans.add(scan)
    ()
  }

  /** Forgets a scan that has reached its end. */
  def ended(scan: RangeScan): Unit = {
    scans.remove(scan)
    ()
  }

  /** Reports that the key of the record at `position` is about to be removed from `order`. */
  def removed(order: OrderedIndex, position: Int): Unit = scans.forEach(_.removed(order, position))

  /** Ends all scans, because the batch has ended. */
  def end(): Unit = scans.forEach(_.end())

  def isEmpty: Boolean = scans.isEmpty
}
