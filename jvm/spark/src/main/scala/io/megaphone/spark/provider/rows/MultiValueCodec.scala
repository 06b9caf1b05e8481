// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** Rows of which there may be several to a key: their bytes follow each other. */
private[provider] abstract class MultiValueCodec extends RowCodec {
  def setAll(rows: Iterable[UnsafeRow]): Unit
  def rows(bytes: Array[Byte], offset: Int, length: Int): Iterator[UnsafeRow]
}
