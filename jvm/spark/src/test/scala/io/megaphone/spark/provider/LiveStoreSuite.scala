// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import java.util.concurrent.CountDownLatch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.megaphone.TaskStores
import org.apache.spark.sql.types.{LongType, StructType}

import io.megaphone.BinnedStateStoreProvider
import io.megaphone.spark.metrics.OperatorMetrics
import io.megaphone.spark.query.PluginSession

/** A task's state when the task ends. */
final class LiveStoreSuite extends PluginSession {
  private val schema = new StructType().add("n", LongType)
  private val toRow = UnsafeProjection.create(schema)
  private def row(n: Long): UnsafeRow = toRow(InternalRow(n)).copy()

  test("State that another thread is still at work on is dropped with its task.") {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    val (isIn, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    try {
      val first = stores.open(0)
      first.put(row(1), row(1))
      first.commit()
      val killed = stores.open(1).asInstanceOf[GuardedStore]
      killed.put(row(2), row(2))
      val serving: Runnable = () => killed.guard.run(() => { isIn.countDown(); goOn.await() })
      new Thread(serving).start()
      isIn.await()
      val next = stores.open(1) // ends the task before, which does not wait for ever
      assert(bytesRead(next) > 0, "it is read from files")
      assert(next.get(row(1)).getLong(0) == 1 && next.get(row(2)) == null)
      next.put(row(3), row(3))
      next.commit()
      val last = stores.open(2)
      assert(bytesRead(last) == 0 && last.get(row(3)).getLong(0) == 3)
    } finally { goOn.countDown(); stores.close() }
  }

  private def bytesRead(store: StateStore): Long = store.metrics.customMetrics.collectFirst {
    case (metric, value) if metric.name == OperatorMetrics.BytesIn.name => value
  }.get
}
