// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.openjdk.jmh.annotations._
import org.openjdk.jmh.infra.Blackhole

/** Operations over whole stores of `Rows` rows, time per row of the store. */
abstract class WholeStore extends StoreOfProvider {
  import StoreOfProvider._
  import WholeStore._

  /** `PerKey` rows to a key, at times that have no order. */
  override protected def load(): Unit =
    (0 until Rows).foreach(i =>
      store.put(key(i / PerKey, scala.util.hashing.byteswap32(i) & Int.MaxValue), value(i))
    )

  /** Looks at all rows and removes those of a time up to `until`, as Spark does it when a watermark
    * has moved.
    */
  protected def evict(until: Long): Unit = {
    val all = store.iterator()
    while (all.hasNext) { val key = all.next().key; if (key.getLong(1) <= until) store.remove(key) }
    all.close()
  }
}

object WholeStore {
  final val Rows = 200000
  val PerKey = 10
}

class Eviction extends WholeStore {
  import WholeStore.Rows

  @Benchmark @OperationsPerInvocation(Rows)
  def evictAll(): Unit = evict(Long.MaxValue)

  @Benchmark @OperationsPerInvocation(Rows)
  def evictNone(): Unit = evict(-1)
}

/** All rows of each key in turn, as session windows ask for them. */
class PrefixScan extends WholeStore {
  import WholeStore._

  override protected def spec: KeyStateEncoderSpec =
    PrefixKeyScanStateEncoderSpec(StoreOfProvider.KeySchema, 1)
  override protected def operator: String =
    StatefulOperatorsUtils.SESSION_WINDOW_STATE_STORE_SAVE_EXEC_OP_NAME
  private val prefixes = {
    val row = UnsafeProjection.create(StructType(StoreOfProvider.KeySchema.take(1)))
    Array.tabulate(Rows / PerKey)(k => row(new GenericInternalRow(Array[Any](k))).copy())
  }

  @Benchmark @OperationsPerInvocation(Rows)
  def prefixScan(hole: Blackhole): Unit =
    prefixes.foreach { prefix =>
      val rows = store.prefixScan(prefix); while (rows.hasNext) hole.consume(rows.next().value);
      rows.close()
    }
}

/** All rows by time, as timers and what expires are asked for. Spark's provider that keeps all in a
  * hash map has no such scan.
  */
class RangeScan extends WholeStore {
  import WholeStore.Rows

  override protected def spec: KeyStateEncoderSpec =
    RangeKeyScanStateEncoderSpec(StoreOfProvider.KeySchema, Seq(1))

  @Benchmark @OperationsPerInvocation(Rows)
  def rangeScan(hole: Blackhole): Unit = {
    val all = store.iterator(); while (all.hasNext) hole.consume(all.next().value); all.close()
  }
}
