// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.util

import io.megaphone.log.index.OrderedIndex

/** The ordered scans of a log that were begun and not ended: they are told of keys that go. One
  * that its caller has forgotten goes by itself.
  */
private[log] final class OpenRanges {
  private val scans =
    util.Collections.newSetFromMap(new util.WeakHashMap[RangeScan, java.lang.Boolean](4))

  def add(scan: RangeScan): Unit = { scans.add(scan); () }

  /** A scan has come to its end. */
  def ended(scan: RangeScan): Unit = { scans.remove(scan); () }

  /** A key is about to leave an order: its record. */
  def removed(order: OrderedIndex, position: Int): Unit = scans.forEach(_.removed(order, position))

  /** The batch has ended, and all scans with it. */
  def end(): Unit = scans.forEach(_.end())

  def isEmpty: Boolean = scans.isEmpty
}
