// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.UUID
import java.util.concurrent.TimeUnit

import org.apache.spark.{TaskContext, TaskContextImpl}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{IntegerType, StructType}
import org.openjdk.jmh.annotations._
import org.openjdk.jmh.infra.Blackhole

import io.megaphone.control.{BatchFacts, BatchFactsHolder, Tables}
import io.megaphone.protocol.Operator
import io.megaphone.routing.RoutingTable

/** Store operations per row, on our provider and on Spark's: the cases of Spark's own basic-operations benchmark, at a size that does not fit a
  * processor's cache.
  *
  * Each invocation works on `Rows` rows of a store that was loaded with `keys` keys and committed, and is then aborted, so that every one starts from
  * the same state.
  */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
class StoreOperations {
  import StoreOperations._

  @Param(Array("megaphone", "hdfs", "rocksdb"))
  var provider: String = _

  @Param(Array("2000000"))
  var keys: Int = _

  private var bench: OpenStores = _
  private var store: StateStore = _
  private var present: Array[UnsafeRow] = _
  private var absent: Array[UnsafeRow] = _
  private var values: Array[UnsafeRow] = _

  @Setup(Level.Trial)
  def load(): Unit = {
    bench = new OpenStores(provider)
    val first = bench.open(0)
    (0 until keys).foreach(i => first.put(key(i), value(i)))
    first.commit()
    bench.endTask()
    val random = new scala.util.Random(7)
    present = Array.fill(Rows)(key(random.nextInt(keys)))
    absent = Array.tabulate(Rows)(i => key(keys + i))
    values = Array.tabulate(Rows)(i => value(i + 1))
  }

  @Setup(Level.Invocation)
  def open(): Unit = store = bench.open(1)

  @TearDown(Level.Invocation)
  def abort(): Unit = { store.abort(); bench.endTask() }

  @TearDown(Level.Trial)
  def stop(): Unit = bench.stop()

  @Benchmark @OperationsPerInvocation(Rows)
  def putOverwrite(): Unit = { var i = 0; while (i < Rows) { store.put(present(i), values(i)); i += 1 } }

  @Benchmark @OperationsPerInvocation(Rows)
  def putNew(): Unit = { var i = 0; while (i < Rows) { store.put(absent(i), values(i)); i += 1 } }

  @Benchmark @OperationsPerInvocation(Rows)
  def get(hole: Blackhole): Unit = { var i = 0; while (i < Rows) { hole.consume(store.get(present(i))); i += 1 } }

  @Benchmark @OperationsPerInvocation(Rows)
  def remove(): Unit = { var i = 0; while (i < Rows) { store.remove(present(i)); i += 1 } }

  @Benchmark @OperationsPerInvocation(Rows)
  def scan(hole: Blackhole): Unit = {
    val all = store.iterator(); var i = 0; while (i < Rows && all.hasNext) { hole.consume(all.next().value); i += 1 }; all.close()
  }
}

object StoreOperations {
  final val Rows = 10000
  val KeySchema: StructType = new StructType().add("k", IntegerType).add("part", IntegerType)
  val ValueSchema: StructType = new StructType().add("v", IntegerType)
  private val keyOf = UnsafeProjection.create(KeySchema)
  private val valueOf = UnsafeProjection.create(ValueSchema)

  def key(i: Int): UnsafeRow = keyOf(new GenericInternalRow(Array[Any](i, i * 31))).copy()
  def value(i: Int): UnsafeRow = valueOf(new GenericInternalRow(Array[Any](i))).copy()
}

/** One store of a provider, opened as a task of a batch would open it. */
final class OpenStores(kind: String) {
  private val session =
    SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false").config("spark.plugins", "io.megaphone.MegaphonePlugin").getOrCreate()
  private val run = UUID.randomUUID()
  private val folder = java.nio.file.Files.createTempDirectory("megaphone-jmh")
  private val conf = {
    val c = session.sessionState.asInstanceOf[org.apache.spark.sql.internal.SessionState].conf.clone()
    c.setConfString(
      "spark.sql.streaming.stateStore.providerClass",
      kind match {
        case "megaphone" => "io.megaphone.BinnedStateStoreProvider"
        case "hdfs" => classOf[HDFSBackedStateStoreProvider].getName
        case "rocksdb" => classOf[RocksDBStateStoreProvider].getName
      }
    )
    c
  }
  private val hadoopConf = { val h = session.sessionState.newHadoopConf(); h.set(StreamExecution.RUN_ID_KEY, run.toString); h }
  private val table = RoutingTable.roundRobin(1024, 1)
  private val provider = {
    val id = StateStoreProviderId(StateStoreId(s"file:$folder/state", 0, 0), run)
    val spec = NoPrefixKeyStateEncoderSpec(StoreOperations.KeySchema)
    StateStoreProvider.createAndInit(id, StoreOperations.KeySchema, StoreOperations.ValueSchema, spec, false, new StateStoreConf(conf), hadoopConf, false, None)
  }
  private var task: TaskContextImpl = _

  def open(version: Long): StateStore = {
    task = TaskContext.empty()
    TaskContext.setTaskContext(task)
    BatchFactsHolder.put(
      task,
      BatchFacts(run.toString, 0, Vector(Operator(0, "stateStoreSave", Vector("default"))), version, Map.empty, None, Vector.empty, ""),
      Tables(table, table)
    )
    provider.getStore(version)
  }

  def endTask(): Unit = { task.markTaskCompleted(None); TaskContext.unset() }
  def stop(): Unit = { provider.close(); session.stop() }
}
