// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.megaphone.TaskStores
import org.apache.spark.sql.types.{LongType, StructType}

import io.megaphone.BinnedStateStoreProvider
import io.megaphone.spark.query.PluginSession

/** Spark computes rows for Python beside the task's own thread, which writes state meanwhile. */
final class BesideTasksSuite extends PluginSession {
  override protected def settings: Map[String, String] =
    super.settings + ("spark.python.udf.pipelined.enabled" -> "true")

  private val schema = new StructType().add("n", LongType)

  /** Each thread has its own. */
  private def rows: Long => UnsafeRow = {
    val toRow = UnsafeProjection.create(schema)
    n => toRow(InternalRow(n)).copy()
  }

  test("A thread that reads beside the task's own one, which writes, finds what was there.") {
    val stores = new TaskStores(spark, classOf[BinnedStateStoreProvider], schema, schema, Nil)
    val feeding = Executors.newSingleThreadExecutor()
    val Keys = 100000L
    val own = rows
    try {
      val first = stores.open(0)
      (1 to Keys.toInt).foreach(n => first.put(own(n.toLong), own(n.toLong)))
      first.commit()
      val store = stores.open(1)
      val begun = new CountDownLatch(1)
      val wrong = feeding.submit { () =>
        val its = rows
        begun.countDown()
        (1L to Keys).count { n =>
          val found = store.get(its(n))
          found == null || found.getLong(0) != n
        }
      }
      begun.await()
      (1L to Keys).foreach(n => store.put(own(-n), own(-n)))
      assert(wrong.get(60, TimeUnit.SECONDS) == 0)
      store.commit()
      val next = stores.open(2)
      assert((1L to Keys).count(n => next.get(own(-n)) == null) == 0)
      assert(next.metrics.numKeys == 2 * Keys)
    } finally { feeding.shutdown(); stores.close() }
  }
}
