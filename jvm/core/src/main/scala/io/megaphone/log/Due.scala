// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.record.{Record, Words}

/** Where the rows of a family have a time.
  *
  * A log does not know what its rows are, so whoever made them tells. The time is one word of a
  * Spark `UnsafeRow`: a bit for each column that is null, in whole words, then a word for each
  * column. A struct's word has the distance of its own row from the row's first byte in its upper
  * half.
  *
  * @param family
  *   number of the family
  * @param isInKey
  *   whether the row is the key; else it is the value
  * @param rowAt
  *   how many bytes the key or value has before the row
  * @param column
  *   ordinal of the column that has the time
  * @param field
  *   if the column is a struct: the ordinal of the field that has the time
  * @param never
  *   the time that says that there is none
  */
final case class RowTime(
    family: Int,
    isInKey: Boolean,
    rowAt: Int,
    columns: Int,
    column: Int,
    field: Option[Int] = None,
    never: Option[Long] = None
) {
  import RowTime._

  /** The time of the record at `at`. A row that is too short to have one is always due, so that
    * whoever reads it finds the damage.
    */
  private[log] def of(page: Array[Byte], at: Int): Long = {
    val header = Words.get(page, at)
    val keyAt = at + Record.HeaderBytes
    val keyBytes = Record.keyBytes(header)
    val time =
      if (isInKey) timeIn(page, keyAt + rowAt, keyAt + keyBytes)
      else {
        val valueAt = keyAt + Record.padded(keyBytes)
        timeIn(page, valueAt + rowAt, valueAt + Record.valueBytes(header))
      }
    if (never.contains(time)) Never else time
  }

  private def timeIn(page: Array[Byte], row: Int, end: Int): Long = {
    val wordAt = row + nullBytes(columns) + 8 * column
    if (wordAt + 8 > end) Always
    else if (isNull(page, row, column)) Never
    else
      field match {
        case None => Words.get(page, wordAt)
        case Some(number) =>
          val struct = row + (Words.get(page, wordAt) >>> 32).toInt
          val fieldAt = struct + nullBytes(number + 1) + 8 * number
          if (struct < row || fieldAt + 8 > end) Always
          else if (isNull(page, struct, number)) Never
          else Words.get(page, fieldAt)
      }
  }
}

object RowTime {
  private val Always = Long.MinValue
  private[log] val Never = Long.MaxValue

  private def nullBytes(columns: Int) = (columns + 63) / 64 * 8
  private def isNull(page: Array[Byte], row: Int, column: Int) =
    (Words.get(page, row + column / 64 * 8) & (1L << column)) != 0
}

/** The rows that an operator lets go in a batch: those with a time up to `until`. It looks at all
  * rows to find them, and does nothing with the others.
  */
final case class Due(time: RowTime, until: Long)
