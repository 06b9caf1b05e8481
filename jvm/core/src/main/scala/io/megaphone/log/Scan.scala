// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.record.Cursor

/** A scan under way, see [[BinLog.scan]], [[BinLog.range]] and [[MergedScan]]. */
abstract class Scan private[log] {

  /** The record that the last `next` that was true stands on. */
  def cursor: Cursor

  /** Goes to the next record; false where there is none. */
  def next(): Boolean
}
