// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.rows

import java.util

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{
  ArrayIndexRange, KeyValueChecksum, KeyValueIntegrityVerifier
}

import io.megaphone.log.memory.Records
import io.megaphone.log.record.{Record, Words}
import io.megaphone.log.record.Cursor

/** Verifies rows that have a checksum, as `spark.sql.streaming.stateStore.rowChecksum.enabled` asks
  * for, by Spark's own classes and with its error.
  *
  * Spark writes the setting to the offset log with a query's first batch, and goes by what is
  * written there from then on, as its readers do. So all rows of a checkpoint have a checksum, or
  * none has.
  *
  * @param store
  *   its name in the error
  * @param ratio
  *   of the rows that are read, one in so many is verified; none where it is 0
  */
private[provider] final class RowChecksums(store: String, ratio: Long) {
  import RowChecksums._

  private val ofReads = verifier(ratio)

  /** Verifies a record that is read, as often as the ratio says. Threads that read at once may
    * miscount a little.
    */
  def verify(found: Cursor): Unit =
    ofReads.foreach(
      check(_, found.bytes, found.keyOffset, found.keyBytes, found.valueOffset, found.valueBytes)
    )

  /** Verifies all of the records that a file has of a bin. Any thread. */
  def verifyAll(records: Array[Byte]): Unit = verifier(ratio = 1).foreach { all =>
    Records.foreach(records, 0, records.length) { (at, header) =>
      val keyAt = at + Record.HeaderBytes
      val keyBytes = Record.keyBytes(header)
      check(
        all,
        records,
        keyAt,
        keyBytes,
        keyAt + Record.padded(keyBytes),
        Record.valueBytes(header)
      )
    }
  }

  private def verifier(ratio: Long): Option[KeyValueIntegrityVerifier] =
    KeyValueIntegrityVerifier.create(store, rowChecksumEnabled = true, ratio)
}

private[provider] object RowChecksums {

  /** Before each value: the checksum of its key and itself (4 B), and its length (4 B). */
  val HeaderBytes = 8

  def headerOf(key: RowCodec, value: RowCodec): Long = {
    val checksum = KeyValueChecksum.create(rangeOf(key), Some(rangeOf(value)))
    (value.length.toLong << 32) | (checksum.toLong & 0xffffffffL)
  }

  /** Where the values of a key begin, each with its header. */
  def starts(bytes: Array[Byte], offset: Int, end: Int): Iterator[Int] =
    Iterator
      .iterate(offset)(at => at + HeaderBytes + lengthAt(bytes, at, end))
      .takeWhile(_ + HeaderBytes <= end)

  /** Bytes of the value whose header is at `at`. A length that cannot be is damage and taken for
    * none: the checksum is not that of no bytes.
    */
  def lengthAt(bytes: Array[Byte], at: Int, end: Int): Int = {
    val most = end - at - HeaderBytes
    val length = if (most < 0) 0 else (Words.get(bytes, at) >>> 32).toInt
    if (length < 0 || length > most) 0 else length
  }

  private def check(
      verifier: KeyValueIntegrityVerifier,
      bytes: Array[Byte],
      keyOffset: Int,
      keyBytes: Int,
      valueOffset: Int,
      valueBytes: Int
  ): Unit = {
    val key = ArrayIndexRange(bytes, keyOffset, keyOffset + keyBytes)
    val end = valueOffset + valueBytes
    var at = valueOffset
    while (at < end) {
      val from = at + HeaderBytes
      if (from <= end) {
        val value = ArrayIndexRange(bytes, from, from + lengthAt(bytes, at, end))
        verifier.verify(key, Some(value), Words.get(bytes, at).toInt)
        at = value.untilIndex
      } else { // too few to be a value
        val rest = Some(ArrayIndexRange(bytes, at, end))
        verifier.verify(key, rest, ~KeyValueChecksum.create(key, rest))
        at = end
      }
    }
  }

  private def rangeOf(row: RowCodec): ArrayIndexRange[Byte] =
    ArrayIndexRange(row.bytes, row.offset, row.offset + row.length)
}

/** Values with the header of a checksum before each, whether a key has one or several. A value is
  * set when its key has been.
  */
private[provider] final class ChecksummedValues(keys: RowCodec, values: RowCodec)
    extends MultiValueCodec {
  import RowChecksums._

  bytes = new Array[Byte](ChecksummedValues.BytesMin)

  override def set(row: UnsafeRow): Unit = { length = 0; add(row) }
  override def setAll(rows: Iterable[UnsafeRow]): Unit = { length = 0; rows.foreach(add) }

  override def row(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow =
    values.row(bytes, offset + HeaderBytes, lengthAt(bytes, offset, offset + length))

  override def rows(bytes: Array[Byte], offset: Int, length: Int): Iterator[UnsafeRow] = {
    val end = offset + length
    starts(bytes, offset, end).map(at =>
      values.row(bytes, at + HeaderBytes, lengthAt(bytes, at, end))
    )
  }

  private def add(row: UnsafeRow): Unit = {
    values.set(row)
    val at = length
    length = at + HeaderBytes + values.length
    if (length > bytes.length) bytes = util.Arrays.copyOf(bytes, math.max(length, 2 * bytes.length))
    Words.set(bytes, at, headerOf(keys, values))
    System.arraycopy(values.bytes, values.offset, bytes, at + HeaderBytes, values.length)
  }
}

private object ChecksummedValues {
  val BytesMin = 256
}
