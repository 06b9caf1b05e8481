// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.{LongType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.log.{Due, RowTime}
import io.megaphone.spark.provider.DueRows

/** Ranges that an operator looks at, beside what is known to be due. */
class DueRowsSuite extends AnyFunSuite {
  private val toKey =
    UnsafeProjection.create(new StructType().add("time", LongType).add("key", StringType))
  private def key(time: Long): Option[UnsafeRow] =
    Some(toKey(InternalRow(time, UTF8String.fromString(""))).copy())

  test("a range that ends after what is due, or never, has rows that are not") {
    val rows = DueRows(Due(RowTime.InOrder(1), until = 10), null, None)
    assert(rows.areAllBefore(key(10)) && rows.areAllBefore(key(11)), "as Spark asks: up to 10")
    assert(!rows.areAllBefore(key(12)) && !rows.areAllBefore(None))
  }
}
