// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.contract

import java.util.concurrent.atomic.AtomicLong

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.datasources.v2.state._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.megaphone.neutrality.Neutral.isAll
import org.apache.spark.sql.megaphone.upstream.{NotRun, UpstreamSuites}
import org.apache.spark.sql.types.StructType
import org.scalatest.{Args, DoNotDiscover, Status}

import io.megaphone.checkpoint.planlog.LogRecord
import io.megaphone.plan.{Group, Operator}
import io.megaphone.spark.checkpoint.HadoopPlanLog
import io.megaphone.spark.conf.MegaphoneConf

/** Spark's own suites of the state data source pass on bins: state, change feed, and what is
  * refused.
  */
final class StateSourceContractSuite
    extends BinnedSuites(new BinnedChangeFeed, new BinnedStateSource, new BinnedNegativeStateSource)

/** So do the others, which run with all tests only: the variables of `transformWithState`,
  * settings, and checkpoint format 2.
  */
final class MoreStateSourcesContractSuite
    extends BinnedSuites(
      (if (isAll)
         Seq(
           new BinnedStateOfTransformWithState,
           new BinnedConfiguredStateSource,
           new BinnedStateSourceOfNothing,
           new BinnedChangeFeedV2,
           new BinnedStateSourceV2,
           new BinnedSnapshotsV2,
           new BinnedStateOfTransformWithStateV2
         )
       else Nil): _*
    )

/** Suites of which nothing can run on another provider. */
final class NotRunContractSuite
    extends UpstreamSuites(
      new AtomicLong,
      UpstreamSuites.OnBins,
      new NotRunAllFamiliesReader,
      new NotRunRowChecksums,
      new NotRunCoordinatorOfQueries
    ) {
  override protected def verify(): Unit = ()
}

/** Compares what is read but for the column `partition_id`: a key's partition is its bin modulo the
  * number of partitions, not its hash.
  */
trait BinnedSource extends BinnedOnce {
  override protected def checkAnswer(df: => DataFrame, expected: Seq[Row]): Unit = {
    val read = df
    val column = read.columns.indexOf("partition_id")
    if (column < 0) super.checkAnswer(read, expected)
    else
      super.checkAnswer(
        read.drop("partition_id"),
        expected.map(r => Row.fromSeq(r.toSeq.patch(column, Nil, 1)))
      )
  }

  override def leftOut: Seq[(String, String)] =
    super.leftOut ++ Seq(
      "partition_id column" ->
        ("asserts that a key's partition is its hash modulo their number, where here it is the " +
          "bin's"),
      "snapshotStartBatchId with transformWithState" ->
        "waits for snapshot files of RocksDB's names"
    )
}

/** Reads of state. The tests of a join's newer formats end at once unless the configuration names
  * RocksDB's provider as they begin: it does then, and their queries are on ours.
  */
trait BinnedReads extends BinnedSource {
  override protected def withSQLConf[T](pairs: (String, String)*)(f: => T): T =
    super.withSQLConf(
      pairs :+ (SQLConf.STATE_STORE_PROVIDER_CLASS.key -> MegaphoneConf.ProviderClass): _*
    )(f)

  override protected def runTest(testName: String, args: Args): Status =
    if (!testName.matches("stream-stream join, state ver [34]")) super.runTest(testName, args)
    else {
      spark.conf.set(
        SQLConf.STATE_STORE_PROVIDER_CLASS.key,
        classOf[RocksDBStateStoreProvider].getName
      )
      try super.runTest(testName, args)
      finally spark.conf.set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, MegaphoneConf.ProviderClass)
    }

  override def leftOut: Seq[(String, String)] = super.leftOut :+
    ("snapshot of version not found" ->
      ("asserts which versions have a snapshot, by the schedule of Spark's maintenance; here " +
        "state can be read from each on"))
}

/** Our provider with no query around it, for a checkpoint that can be read, too: its state lies in
  * the folder `state`, beside a plan log that says whose the bins are. Of a query's partitions the
  * first.
  */
final class PlannedProvider extends StandAloneProvider {
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
    val table = StandAloneProvider.Table
    val group =
      Group(Vector(Operator(id.operatorId, "stateStoreSave", Vector(id.storeName))), table.workers)
    val started = LogRecord.Started(
      "run",
      0,
      checkpointFormat = 1,
      table.bins,
      Vector(group),
      Map(group.id -> table)
    )
    val log = new HadoopPlanLog(id.checkpointRootLocation, hadoopConf)
    assert(log.create(0, started))
    val beside = id.copy(checkpointRootLocation = s"${id.checkpointRootLocation}/state")
    super.init(
      beside,
      keySchema,
      valueSchema,
      spec,
      useColumnFamilies,
      conf,
      hadoopConf,
      useMultipleValuesPerKey,
      schemas
    )
  }
}

@DoNotDiscover class BinnedStateSource extends StateDataSourceReadSuite with BinnedReads {
  override protected def newStateStoreProvider(): StandAloneProvider = new PlannedProvider

  // Spark's suites of its own providers have these.
  test("ERROR: snapshot of version not found")(testSnapshotNotFound())
  test("provider.getReadStore(snapshotVersion, endVersion)")(testGetReadStoreWithStartVersion())
  test("option snapshotPartitionId")(testSnapshotPartitionId())
  if (isAll) {
    test("snapshotStartBatchId on join state v3")(testSnapshotOnJoinStateV3())
    test("snapshotStartBatchId on join state v4")(testSnapshotOnJoinStateV4())
  }
}

@DoNotDiscover class BinnedChangeFeed
    extends StateDataSourceChangeDataReaderSuite
    with BinnedSource {
  override protected def newStateStoreProvider(): StandAloneProvider = new PlannedProvider
}

@DoNotDiscover class BinnedNegativeStateSource
    extends StateDataSourceNegativeTestSuite
    with BinnedSource
@DoNotDiscover class BinnedStateOfTransformWithState
    extends StateDataSourceTransformWithStateSuite
    with BinnedSource
@DoNotDiscover class BinnedConfiguredStateSource
    extends StateDataSourceSQLConfigSuite
    with BinnedSource
@DoNotDiscover class BinnedStateSourceOfNothing
    extends StateDataSourceNoEmptyDirCreationSuite
    with BinnedSource
@DoNotDiscover class BinnedStateOfTransformWithStateV2
    extends StateDataSourceTransformWithStateSuiteCheckpointV2
    with BinnedSource

@DoNotDiscover class BinnedStateSourceV2
    extends RocksDBWithCheckpointV2StateDataSourceReaderSuite
    with BinnedReads {
  override def leftOut: Seq[(String, String)] =
    super.leftOut :+ ("SPARK-56970" ->
      ("asserts that a session set to checkpoint format 1 cannot read one in format 2; here the " +
        "checkpoint says which it has"))
}

@DoNotDiscover class BinnedChangeFeedV2
    extends RocksDBWithCheckpointV2StateDataSourceChangeDataReaderSuite
    with BinnedSource {
  override def leftOut: Seq[(String, String)] =
    super.leftOut :+ ("getChangeDataReader of state store provider" -> OfV2.Provider)
}

@DoNotDiscover class BinnedSnapshotsV2
    extends RocksDBWithCheckpointV2StateDataSourceReaderSnapshotSuite
    with BinnedReads {
  override def leftOut: Seq[(String, String)] = super.leftOut ++ Seq(
    "provider.getReadStore(" -> OfV2.Provider,
    "snapshotStartBatchId on limit state" -> OfV2.Files,
    "snapshotStartBatchId on aggregation state" -> OfV2.Files,
    "snapshotStartBatchId on deduplication state" -> OfV2.Files,
    "snapshotStartBatchId on join state$" -> OfV2.Files
  )
}

/** Why some tests of checkpoint format 2 are not run. */
private object OfV2 {
  val Provider =
    "makes a provider of RocksDB's class, as the type in its suite says; the same test runs on " +
      "ours with checkpoint format 1"
  val Files =
    "reads a checkpoint that is kept with Spark's tests, in the files of RocksDB's provider"
}

@DoNotDiscover class NotRunAllFamiliesReader
    extends StatePartitionAllColumnFamiliesReaderSuite
    with NotRun {
  override def because: String =
    "reads by an internal option that Spark refuses for every provider but RocksDB's, by the " +
      "name of the class"
}

@DoNotDiscover class NotRunRowChecksums extends HDFSStateStoreRowChecksumSuite with NotRun {
  override def because: String =
    "damages rows in private fields of Spark's own stores and in their files, and counts by such " +
      "a field; RowChecksumSuite damages those of bins"
}

@DoNotDiscover class NotRunCoordinatorOfQueries
    extends StateStoreCoordinatorStreamingSuite
    with NotRun {
  override def because: String =
    "asserts that stores lag whose maintenance is left out, by subclasses of Spark's own " +
      "providers or a long interval; here a commit is as good as a snapshot"
}
