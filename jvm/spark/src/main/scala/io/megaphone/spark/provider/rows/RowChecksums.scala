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

/** Verifies the checksums of rows, which `spark.sql.streaming.stateStore.rowChecksum.enabled` turns
  * on. Uses Spark's own classes and throws Spark's error.
  *
  * Spark writes the setting to the offset log with a query's first batch. From then on the query
  * and Spark's readers follow the offset log. So either all rows of a checkpoint have a checksum,
  * or none has.
  *
  * @param store
  *   the store's name in the error
  * @param ratio
  *   one in `ratio` rows read is verified; none if it is 0
  */
private[provider] final class RowChecksums(store: String, ratio: Long) {
  import RowChecksums._

  private val ofReads = verifier(ratio)

  /** Verifies a record that was read, or skips it, as the ratio says. Concurrent readers may
    * miscount a little.
    */
  def verify(found: Cursor): Unit =
    ofReads.foreach(
      check(_, found.bytes, found.keyOffset, found.keyBytes, found.valueOffset, found.valueBytes)
    )

  /** Verifies all records of a bin that were read from a file. Threads: any. */
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

  /** The header of a value: the checksum of key and value (4 B), the value's length (4 B). */
  val HeaderBytes = 8

  def headerOf(key: RowCodec, value: RowCodec): Long = {
    val checksum = KeyValueChecksum.create(rangeOf(key), Some(rangeOf(value)))
    (value.length.toLong << 32) | (checksum.toLong & 0xffffffffL)
  }

  /** The offsets of the headers of a key's values. */
  def starts(bytes: Array[Byte], offset: Int, end: Int): Iterator[Int] =
    Iterator
      .iterate(offset)(at => at + HeaderBytes + lengthAt(bytes, at, end))
      .takeWhile(_ + HeaderBytes <= end)

  /** Length of the value whose header is at `at`. An invalid length is damage. It is read as 0, and
    * the checksum then does not match.
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
      } else { // fewer bytes than a header: damage
        val rest = Some(ArrayIndexRange(bytes, at, end))
        verifier.verify(key, rest, ~KeyValueChecksum.create(key, rest))
        at = end
      }
    }
  }

  private def rangeOf(row: RowCodec): ArrayIndexRange[Byte] =
    ArrayIndexRange(row.bytes, row.offset, row.offset + row.length)
}

/** Encodes values with a checksum header before each, for keys with one value or several. The key
  * must be encoded before its values: the checksum covers both.
  */
private[provider] final class ChecksummedValues(keys: RowCodec, values: RowCodec)
    extends MultiValueCodec {
  import RowChecksums._

  bytes = new Array[Byte](ChecksummedValues.BytesMin)

  override def rowAt: Option[Int] = values.rowAt.map(_ + HeaderBytes)
  override def encode(row: UnsafeRow): Unit = { length = 0; add(row) }
  override def encodeAll(rows: Iterable[UnsafeRow]): Unit = { length = 0; rows.foreach(add) }

  override def decode(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow =
    values.decode(bytes, offset + HeaderBytes, lengthAt(bytes, offset, offset + length))

  override def decodeAll(bytes: Array[Byte], offset: Int, length: Int): Iterator[UnsafeRow] = {
    val end = offset + length
    starts(bytes, offset, end).map(at =>
      values.decode(bytes, at + HeaderBytes, lengthAt(bytes, at, end))
    )
  }

  private def add(row: UnsafeRow): Unit = {
    values.encode(row)
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
