// SPDX-License-Identifier: Apache-2.0
package io.megaphone.store

import io.megaphone.format.Frame
import io.megaphone.log.{BinLog, Record, Records, Words}

/** What a commit did to a bin: a key set to a value, or removed. Key and value are stretches of `bytes`; a removal has no value. */
final case class Change(family: Int, isRemove: Boolean, bytes: Array[Byte], keyOffset: Int, keyBytes: Int, valueOffset: Int, valueBytes: Int)

/** Reads changes from the frame that a commit wrote of a bin.
  *
  *   1. A tail is the changes, as they stand.
  *   1. An image took the place of a tail: what it has otherwise than the bin before, or lacks, is what the batch changed. A value that was set to what
  *      it was is not told of.
  */
object Changes {

  /** @param before
    *   the bin before the commit, asked for where the frame is an image
    */
  def of(frame: Frame, records: Array[Byte], before: => BinLog): Vector[Change] =
    if (!frame.isImage) changes(records)
    else {
      val old = before
      val now = new BinLog
      now.apply(records, 0, records.length)
      val set = changes(records).filterNot(c => find(old, c) && isValue(old.cursor, c))
      val gone = changes(old.image()).filterNot(find(now, _)).map(_.copy(isRemove = true, valueBytes = 0))
      gone ++ set
    }

  private def changes(records: Array[Byte]): Vector[Change] = {
    val all = Vector.newBuilder[Change]
    Records.foreach(records, 0, records.length) { (at, header) =>
      val keyAt = at + Record.HeaderBytes
      val keyBytes = Record.keyBytes(header)
      val isRemove = Record.kind(header) == Record.Remove
      all += Change(Record.family(header), isRemove, records, keyAt, keyBytes, keyAt + Record.padded(keyBytes), Record.valueBytes(header))
    }
    all.result()
  }

  private def find(log: BinLog, c: Change): Boolean = log.find(c.family, c.bytes, c.keyOffset, c.keyBytes)
  private def isValue(at: BinLog.Cursor, c: Change): Boolean =
    Words.compare(at.bytes, at.valueOffset, at.valueBytes, c.bytes, c.valueOffset, c.valueBytes) == 0
}
