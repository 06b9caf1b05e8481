// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.RecordType
import org.apache.spark.util.NextIterator

/** The rows of a change feed (kind, key, value, batch), as the iterator that Spark expects of a
  * provider.
  *
  * Private to Spark (4.2, 4.3): `NextIterator`.
  */
final class ChangeRows(rows: Iterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)])
    extends NextIterator[(RecordType.Value, UnsafeRow, UnsafeRow, Long)] {
  override protected def getNext(): (RecordType.Value, UnsafeRow, UnsafeRow, Long) =
    if (rows.hasNext) rows.next()
    else {
      finished = true
      null
    }
  override protected def close(): Unit = ()
}
