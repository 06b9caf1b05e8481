// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.contract

import java.io.File
import java.util.UUID
import java.util.concurrent.atomic.AtomicLong

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkConf
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.megaphone.{ChangeRows, StoreTask}
import org.apache.spark.sql.megaphone.upstream.{Upstream, UpstreamSuites}
import org.apache.spark.sql.test.SharedSparkSession
import org.apache.spark.sql.types.StructType
import org.scalatest.DoNotDiscover

import io.megaphone.{BinnedStateStoreProvider, MegaphonePlugin}
import io.megaphone.plan.RoutingTable

/** What Spark asks of any provider, with no query around it. */
final class StoreBaseContractSuite extends StandAloneSuites(new BinnedStores)

/** Suites whose stores are opened with no query around them. */
abstract class StandAloneSuites(suites: Upstream*)
    extends UpstreamSuites(StandAloneProvider.count, UpstreamSuites.OnBins, suites: _*) {
  override protected def remark: String = s" on $counted stores"
  override protected def verify(): Unit = {
    checkCounted("No store was ours")
    assert(suites.forall(_.failures.isEmpty))
  }
}

/** Our provider, each of whose stores is opened as the next task of a query's batches would open
  * it. Spark's tests let each partition stand alone, so each is worker 0 of a query of its own: all
  * bins are its own, and it needs no other worker's file.
  */
class StandAloneProvider extends BinnedStateStoreProvider {
  private val run = UUID.randomUUID().toString
  private var task: StoreTask = _

  override def init(
      id: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      spec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      conf: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      schemas: Option[StateSchemaProvider]
  ): Unit = {
    val withRun = new Configuration(hadoopConf)
    withRun.set(StreamExecution.RUN_ID_KEY, run)
    super.init(
      StandAloneProvider.alone(id),
      keySchema,
      valueSchema,
      spec,
      useColumnFamilies,
      conf,
      withRun,
      useMultipleValuesPerKey,
      schemas
    )
    StandAloneProvider.count.incrementAndGet()
    task = new StoreTask(run, id.operatorId, StandAloneProvider.Table, Nil)
  }

  override def getStore(
      version: Long,
      id: Option[String],
      withImages: Boolean,
      loadEmpty: Boolean
  ): StateStore = {
    task.begin(version)
    super.getStore(version, id, withImages, loadEmpty)
  }

  override def getReadStore(version: Long, id: Option[String]): ReadStateStore = {
    task.begin(version); super.getReadStore(version, id)
  }

  /** As an operator does that reads first: in one task. */
  override def upgradeReadStoreToWriteStore(
      store: ReadStateStore,
      version: Long,
      id: Option[String],
      withImages: Boolean
  ): StateStore =
    super.getStore(version, id, withImages, loadEmpty = false)

  /** As a reader does: in no task. */
  override def replayStateFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      readOnly: Boolean,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): StateStore = {
    task.end()
    super.replayStateFromSnapshot(
      snapshotVersion,
      endVersion,
      readOnly,
      snapshotVersionStateStoreCkptId,
      endVersionStateStoreCkptId
    )
  }

  override def getStateStoreChangeDataReader(
      from: Long,
      until: Long,
      family: Option[String],
      untilId: Option[String]
  ): ChangeRows = {
    task.end()
    super.getStateStoreChangeDataReader(from, until, family, untilId)
  }

  override def close(): Unit = { if (task != null) task.end(); super.close() }
}

private object StandAloneProvider {
  val count = new AtomicLong()

  val Table: RoutingTable = RoutingTable.tabulate(8, 1, 0)(_ => 0)

  /** The store as worker 0: of a checkpoint of its own if it is not the first partition. */
  def alone(id: StateStoreId): StateStoreId =
    if (id.partitionId == 0) id
    else
      id.copy(
        checkpointRootLocation = s"${id.checkpointRootLocation}/alone-${id.partitionId}",
        partitionId = 0
      )
}

@DoNotDiscover class BinnedStores
    extends StateStoreSuiteBase[StandAloneProvider]
    with SharedSparkSession
    with Upstream {

  override protected def testQuietly(name: String)(f: => Unit): Unit = super.testQuietly(name)(f)
  override protected def sparkConf: SparkConf =
    super.sparkConf.set("spark.plugins", classOf[MegaphonePlugin].getName)

  override def leftOut: Seq[(String, String)] = super.leftOut ++ Seq(
    "SPARK-18342" -> "asserts the name of one of Spark's own stores in the message",
    "SPARK-38320" ->
      ("asserts, by the name of the store's class, which of two ways an iterator takes to see " +
        "what is put after it began"),
    "one for read-only and one for read-write with release()" ->
      "takes the provider of `StateStoreConf.empty`, which is Spark's default, whichever is tested",
    "getWriteStore correctly uses" ->
      "takes the provider of `StateStoreConf.empty`, which is Spark's default, whichever is tested",
    "StateStore.get" -> "asserts the name of one of Spark's own providers in the message",
    "SPARK-48997" -> "runs on a provider of its own",
    "SPARK-35763" -> "is about Spark's own class, and stops the session"
  )

  /** Within a task, as the test is once it has opened a store, Spark's own way gives a
    * configuration that cannot be copied.
    */
  override def cloneSQLConf(): SQLConf = spark.sessionState.conf.clone()

  private def provider(
      id: StateStoreId,
      spec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      hadoopConf: Configuration = new Configuration
  ) = {
    val made = new StandAloneProvider
    made.init(
      id,
      spec.keySchema,
      valueSchema,
      spec,
      useColumnFamilies,
      new StateStoreConf(cloneSQLConf()),
      hadoopConf,
      false,
      None
    )
    made
  }
  private def plain: KeyStateEncoderSpec = NoPrefixKeyStateEncoderSpec(keySchema)
  private def newId = StateStoreId(StateStoreTestsHelper.newDir(), Random.nextInt(1000).toLong, 0)

  override def newStoreProvider(): StandAloneProvider =
    provider(newId, plain, useColumnFamilies = false)
  override def newStoreProvider(id: StateStoreId): StandAloneProvider =
    provider(id, plain, useColumnFamilies = false)
  override def newStoreProvider(id: StateStoreId, useColumnFamilies: Boolean): StandAloneProvider =
    provider(id, plain, useColumnFamilies)
  override def newStoreProvider(id: StateStoreId, conf: Configuration): StandAloneProvider =
    provider(id, plain, useColumnFamilies = false, conf)
  override def newStoreProvider(
      minDeltasForSnapshot: Int,
      numOfVersToRetainInMemory: Int
  ): StandAloneProvider = newStoreProvider()
  override def newStoreProvider(
      keySchema: StructType,
      spec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean
  ): StandAloneProvider =
    provider(newId, spec, useColumnFamilies)
  override def newStoreProvider(useColumnFamilies: Boolean): StandAloneProvider =
    provider(newId, plain, useColumnFamilies)
  override def newStoreProviderWithClonedConf(id: StateStoreId): StandAloneProvider =
    newStoreProvider(id)
  override def newStoreProviderNoInit(): StandAloneProvider = new StandAloneProvider
  override def getDefaultSQLConf(
      minDeltasForSnapshot: Int,
      numOfVersToRetainInMemory: Int
  ): SQLConf = cloneSQLConf()

  /** The newest version that has a file. */
  override def getLatestData(
      store: StandAloneProvider,
      useColumnFamilies: Boolean
  ): Set[((String, Int), Int)] = {
    val id = store.stateStoreId
    val files = Option(
      new File(id.checkpointRootLocation, s"${id.operatorId}/${id.partitionId}").list()
    ).toSeq.flatten
    getData(
      store,
      files.flatMap(_.stripSuffix(".delta").toIntOption).maxOption.getOrElse(0),
      useColumnFamilies
    )
  }

  override def getData(
      store: StandAloneProvider,
      version: Int,
      useColumnFamilies: Boolean
  ): Set[((String, Int), Int)] =
    tryWithProviderResource(newStoreProvider(store.stateStoreId, useColumnFamilies)) { reloaded =>
      StateStoreTestsHelper.rowPairsToDataSet(reloaded.getStore(version).iterator())
    }
}
