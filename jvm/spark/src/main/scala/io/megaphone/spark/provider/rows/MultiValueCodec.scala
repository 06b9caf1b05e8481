// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** A codec for keys with several values: the values' bytes follow each other in one byte range. */
private[provider] abstract class MultiValueCodec extends RowCodec {
  def encodeAll(rows: Iterable[UnsafeRow]): Unit
  def decodeAll(bytes: Array[Byte], offset: Int, length: Int): Iterator[UnsafeRow]
}
