// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{
  RocksDBKeyStateEncoder, RocksDBValueStateEncoder
}
import org.apache.spark.unsafe.Platform

/** How rows become bytes of a log, and back. One thread. */
private[provider] abstract class RowCodec {

  /** Where the bytes of the row last set lie: until the next one is set, or that row changes. */
  var bytes: Array[Byte] = _
  var offset, length = 0

  def set(row: UnsafeRow): Unit

  /** The row of a byte range. Those that are encoded may be the same object each time. */
  def row(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow

  protected final def set(all: Array[Byte]): Unit = { bytes = all; offset = 0; length = all.length }
  protected final def copy(bytes: Array[Byte], offset: Int, length: Int): Array[Byte] =
    java.util.Arrays.copyOfRange(bytes, offset, offset + length)
}

/** Rows as they are, with no copy on the way. */
private[provider] final class PlainRows(fields: Int) extends RowCodec {
  override def set(row: UnsafeRow): Unit = row.getBaseObject match {
    case heap: Array[Byte] =>
      bytes = heap
      offset = (row.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt
      length = row.getSizeInBytes
    case _ => set(row.getBytes)
  }

  override def row(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow = {
    val row = new UnsafeRow(fields)
    row.pointTo(bytes, (Platform.BYTE_ARRAY_OFFSET + offset).toLong, length)
    row
  }
}

/** Keys by the encoder that Spark has for its own sorted store: their bytes are in the order of the
  * columns that are scanned by.
  */
private[provider] final class EncodedKeys(val encoder: RocksDBKeyStateEncoder) extends RowCodec {
  override def set(row: UnsafeRow): Unit = set(encoder.encodeKey(row))
  override def row(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow =
    encoder.decodeKey(copy(bytes, offset, length))
}

/** Values by Spark's encoder: with the number of their schema, or several to a key. */
private[provider] final class EncodedValues(encoder: RocksDBValueStateEncoder)
    extends MultiValueCodec {
  override def set(row: UnsafeRow): Unit = set(encoder.encodeValue(row))
  override def row(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow =
    encoder.decodeValue(copy(bytes, offset, length))

  override def setAll(rows: Iterable[UnsafeRow]): Unit = {
    val parts = rows.iterator.map(encoder.encodeValue).toVector
    val all = new Array[Byte](parts.map(_.length).sum)
    parts.foldLeft(0) { (at, part) =>
      System.arraycopy(part, 0, all, at, part.length); at + part.length
    }
    set(all)
  }

  override def rows(bytes: Array[Byte], offset: Int, length: Int): Iterator[UnsafeRow] =
    encoder.decodeValues(copy(bytes, offset, length))
}
