// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.record.Cursor

/** A scan in progress: see [[BinLog.scan]], [[BinLog.range]] and [[MergedScan]]. */
abstract class Scan private[log] {

  /** The record that the last successful `next` moved to. */
  def cursor: Cursor

  /** Moves to the next record; returns false if there is none. */
  def next(): Boolean
}
