// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{
  NoPrefixKeyStateEncoderSpec, ReadStateStore, RocksDBStateStoreProvider
}
import org.apache.spark.sql.types._

import io.megaphone.BinnedStateStoreProvider
import io.megaphone.spark.query.PluginSession

/** Spark 4.3 names column families that are there already to a handle that only reads, which 4.2
  * cannot: as on Spark's RocksDB provider, the only other one that has families.
  */
class RegisteredFamilySuite extends PluginSession {
  private val schema = new StructType().add("n", LongType)
  private val toRow = UnsafeProjection.create(schema)
  private def row(n: Long): UnsafeRow = toRow(InternalRow(n)).copy()

  private def register(store: ReadStateStore, name: String): Unit =
    store.registerColFamily(
      name,
      schema,
      schema,
      NoPrefixKeyStateEncoderSpec(schema),
      useMultipleValuesPerKey = false,
      isInternal = false
    )

  /** What a handle that reads in a new run makes of a family that the run before wrote. */
  private def readAnew[A](provider: Class[_])(read: ReadStateStore => A): A = {
    val stores = new TaskStores(spark, provider, schema, schema, Seq("squares"))
    try {
      val first = stores.open(0)
      first.createColFamilyIfAbsent("squares", schema, schema, NoPrefixKeyStateEncoderSpec(schema))
      (0L until 20L).foreach(n => first.put(row(n), row(n * n), "squares"))
      first.commit()
      stores.restart()
      val reading = stores.openToRead(1)
      try read(reading)
      finally reading.release()
    } finally stores.close()
  }

  private def condition(body: => Unit): String = intercept[SparkThrowable](body).getCondition

  test(
    "A handle that reads in a new run finds the rows of a family once it is registered, however " +
      "often, and none of Spark's own may be."
  ) {
    val found =
      Seq(classOf[BinnedStateStoreProvider], classOf[RocksDBStateStoreProvider]).map(readAnew(_) {
        reading =>
          register(reading, "squares")
          register(reading, "squares")
          val rows = reading
            .iterator("squares")
            .map(pair => (pair.key.getLong(0), pair.value.getLong(0)))
            .toSet
          (rows, condition(register(reading, "$own")))
      })
    assert(found.head == found.last)
    assert(found.head._1 == (0L until 20L).map(n => (n, n * n)).toSet)
  }

  test(
    "A family that was not registered is refused by Spark's own condition; RocksDB's provider " +
      "throws a NullPointerException."
  ) {
    assert(
      readAnew(classOf[BinnedStateStoreProvider])(reading =>
        condition(reading.get(row(3), "squares"))
      ) == "STATE_STORE_UNSUPPORTED_OPERATION_ON_MISSING_COLUMN_FAMILY"
    )
  }
}
