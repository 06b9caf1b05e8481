// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.record.{Record, Words}

/** Where the rows of a family have a time. A log does not know what its rows are, so whoever made
  * them tells.
  */
sealed trait RowTime {

  /** Number of the family. */
  def family: Int

  /** The time of the record at `at`. */
  private[log] def of(page: Array[Byte], at: Int, keys: KeyReader): Long
}

object RowTime {

  /** The time is one word of a Spark `UnsafeRow`: a bit for each column that is null, in whole
    * words, then a word for each column. A struct's word has the distance of its own row from the
    * row's first byte in its upper half.
    *
    * A row that is too short to have the time is always due, so that who reads it finds the damage.
    *
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
  final case class InRow(
      family: Int,
      isInKey: Boolean,
      rowAt: Int,
      columns: Int,
      column: Int,
      field: Option[Int] = None,
      never: Option[Long] = None
  ) extends RowTime {

    override private[log] def of(page: Array[Byte], at: Int, keys: KeyReader): Long = {
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

  /** The time is what an ordered family orders its keys by. */
  final case class InOrder(family: Int) extends RowTime {
    override private[log] def of(page: Array[Byte], at: Int, keys: KeyReader): Long =
      keys.timeOf(family, page, at + Record.HeaderBytes, Record.keyBytes(Words.get(page, at)))
  }

  private val Always = Long.MinValue
  private[log] val Never = Long.MaxValue

  private def nullBytes(columns: Int) = (columns + 63) / 64 * 8
  private def isNull(page: Array[Byte], row: Int, column: Int) =
    (Words.get(page, row + column / 64 * 8) & (1L << column)) != 0
}

/** The rows that an operator lets go in a batch: those with a time up to `until`. It looks at all
  * rows to find them, and does nothing with the others.
  *
  * @param from
  *   whoever asks has all rows of earlier times
  */
final case class Due(time: RowTime, until: Long, from: Long = Long.MinValue)
