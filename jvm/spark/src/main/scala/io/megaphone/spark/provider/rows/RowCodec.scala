// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{
  RocksDBKeyStateEncoder, RocksDBValueStateEncoder
}
import org.apache.spark.unsafe.Platform

/** Encodes rows as bytes of a log, and decodes them.
  *
  * Threads: one.
  */
private[provider] abstract class RowCodec {

  /** The bytes of the row encoded last. Valid until the next `encode`, or that row changes. */
  var bytes: Array[Byte] = _
  var offset, length = 0

  def encode(row: UnsafeRow): Unit

  /** How many bytes there are before the row, if the bytes have the row as it is in memory. */
  def rowAt: Option[Int] = None

  /** The row in a byte range. An encoding codec may return the same object each time. */
  def decode(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow

  protected final def use(all: Array[Byte]): Unit = { bytes = all; offset = 0; length = all.length }
  protected final def copy(bytes: Array[Byte], offset: Int, length: Int): Array[Byte] =
    java.util.Arrays.copyOfRange(bytes, offset, offset + length)
}

/** Stores a row's own bytes, without copying them. */
private[provider] final class PlainRows(fields: Int) extends RowCodec {
  override val rowAt: Option[Int] = Some(0)

  override def encode(row: UnsafeRow): Unit = row.getBaseObject match {
    case heap: Array[Byte] =>
      bytes = heap
      offset = (row.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt
      length = row.getSizeInBytes
    case _ => use(row.getBytes)
  }

  override def decode(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow = {
    val row = new UnsafeRow(fields)
    row.pointTo(bytes, (Platform.BYTE_ARRAY_OFFSET + offset).toLong, length)
    row
  }
}

/** Encodes keys with the encoder of Spark's own sorted store: the bytes sort in the order of the
  * columns that are scanned by.
  */
private[provider] final class EncodedKeys(val encoder: RocksDBKeyStateEncoder) extends RowCodec {
  override def encode(row: UnsafeRow): Unit = use(encoder.encodeKey(row))
  override def decode(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow =
    encoder.decodeKey(copy(bytes, offset, length))
}

/** Encodes values with Spark's encoder: with the number of their schema, or several per key. */
private[provider] final class EncodedValues(encoder: RocksDBValueStateEncoder)
    extends MultiValueCodec {
  override def encode(row: UnsafeRow): Unit = use(encoder.encodeValue(row))
  override def decode(bytes: Array[Byte], offset: Int, length: Int): UnsafeRow =
    encoder.decodeValue(copy(bytes, offset, length))

  override def encodeAll(rows: Iterable[UnsafeRow]): Unit = {
    val parts = rows.iterator.map(encoder.encodeValue).toVector
    val all = new Array[Byte](parts.map(_.length).sum)
    parts.foldLeft(0) { (at, part) =>
      System.arraycopy(part, 0, all, at, part.length)
      at + part.length
    }
    use(all)
  }

  override def decodeAll(bytes: Array[Byte], offset: Int, length: Int): Iterator[UnsafeRow] =
    encoder.decodeValues(copy(bytes, offset, length))
}
