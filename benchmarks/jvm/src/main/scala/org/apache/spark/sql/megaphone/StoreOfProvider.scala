// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.file.{Files, Path}
import java.util.{Comparator, UUID}
import java.util.concurrent.TimeUnit

import org.apache.spark.{TaskContext, TaskContextImpl}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{IntegerType, LongType, StructType}
import org.openjdk.jmh.annotations._

import io.megaphone.plan.{Operator, RoutingTable}
import io.megaphone.runtime.{Assignment, Tables}
import io.megaphone.spark.executor.TaskAssignments

/** A store of one provider, for the operations that are measured on it: loaded once and committed,
  * then opened for each invocation as a task of the next batch would open it, and aborted, so that
  * every invocation starts from the same state. All providers write through the same file manager.
  */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 4, time = 1)
@Measurement(iterations = 4, time = 1)
@Fork(1)
abstract class StoreOfProvider {
  import StoreOfProvider._

  @Param(Array("megaphone", "hdfs", "rocksdb"))
  var provider: String = _

  private var session: SparkSession = _
  private var folder: Path = _
  private var opened: StateStoreProvider = _
  private var task: TaskContextImpl = _
  private val run = UUID.randomUUID()
  private val table = RoutingTable.roundRobin(BinsCount, 1)

  /** The store of the invocation. */
  protected var store: StateStore = _

  /** The version that invocations start from. */
  protected var version = 1L

  protected def spec: KeyStateEncoderSpec = NoPrefixKeyStateEncoderSpec(KeySchema)

  /** Whether a key may have several values; the store has column families then. */
  protected def isMultiValued: Boolean = false

  /** Spark's name of the operator whose store it is: some have keys that are scanned by their first
    * columns.
    */
  protected def operator: String = "stateStoreSave"

  /** Fills the store before the first invocation. */
  protected def load(): Unit

  @Setup(Level.Trial)
  def start(): Unit = {
    session = SparkSession
      .builder()
      .master("local[1]")
      .config("spark.ui.enabled", "false")
      .config("spark.plugins", "io.megaphone.MegaphonePlugin")
      .getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    folder = Files.createTempDirectory("megaphone-jmh")
    val conf =
      session.sessionState.asInstanceOf[org.apache.spark.sql.internal.SessionState].conf.clone()
    conf.setConfString("spark.sql.streaming.stateStore.providerClass", Providers(provider))
    conf.setConfString(
      "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
      "true"
    )
    val hadoopConf = session.sessionState.newHadoopConf()
    hadoopConf.set(StreamExecution.RUN_ID_KEY, run.toString)
    val id = StateStoreProviderId(StateStoreId(s"file:$folder/state", 0, 0), run)
    opened = StateStoreProvider.createAndInit(
      id,
      KeySchema,
      ValueSchema,
      spec,
      isMultiValued,
      new StateStoreConf(conf),
      hadoopConf,
      isMultiValued,
      None
    )
    open(0)
    load()
    store.commit()
    endTask()
  }

  @TearDown(Level.Trial)
  def stop(): Unit = {
    opened.close()
    session.stop()
    val files = Files.walk(folder)
    try files.sorted(Comparator.reverseOrder[Path]()).forEach(Files.delete(_))
    finally files.close()
  }

  @Setup(Level.Invocation)
  def open(): Unit = open(version)

  @TearDown(Level.Invocation)
  def close(): Unit = { if (!store.hasCommitted) store.abort(); endTask() }

  private def open(of: Long): Unit = {
    task = TaskContext.empty()
    TaskContext.setTaskContext(task)
    val operators = Vector(Operator(0, operator, Vector("default")))
    TaskAssignments.put(
      task,
      Assignment(
        run.toString,
        0,
        operators,
        of,
        Map.empty,
        Vector.empty,
        Map.empty,
        Vector.empty,
        ""
      ),
      Tables(table, table)
    )
    store = opened.getStore(of)
  }

  /** What Spark's maintenance thread does for a store: snapshots, and files that are not needed any
    * more.
    */
  protected def maintain(): Unit = opened.doMaintenance()

  private def endTask(): Unit = { task.markTaskCompleted(None); TaskContext.unset() }
}

object StoreOfProvider {
  val BinsCount = 1024
  val KeySchema: StructType = new StructType().add("k", IntegerType).add("t", LongType)
  val ValueSchema: StructType = new StructType().add("v", IntegerType)
  private val Providers = Map(
    "megaphone" -> "io.megaphone.BinnedStateStoreProvider",
    "hdfs" -> classOf[HDFSBackedStateStoreProvider].getName,
    "rocksdb" -> classOf[RocksDBStateStoreProvider].getName
  )
  private val keyOf = UnsafeProjection.create(KeySchema)
  private val valueOf = UnsafeProjection.create(ValueSchema)

  def key(i: Int, t: Long): UnsafeRow = keyOf(new GenericInternalRow(Array[Any](i, t))).copy()
  def value(i: Int): UnsafeRow = valueOf(new GenericInternalRow(Array[Any](i))).copy()
}
