// SPDX-License-Identifier: Apache-2.0
package io.megaphone

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.megaphone.{ChangeRows, SparkPrivate}
import org.apache.spark.sql.types.StructType

import io.megaphone.errors.UnsupportedQueryException
import io.megaphone.spark.metrics.OperatorMetrics
import io.megaphone.spark.provider.ProviderSession

/** The state store provider that keeps state in bins:
  * `spark.sql.streaming.stateStore.providerClass=io.megaphone.BinnedStateStoreProvider`.
  *
  * An instance keeps no state. In a task of a running batch it opens the worker's holding in the
  * executor's registry, by the assignment in the batch's plan. Anywhere else it reads files.
  * Closing an instance drops nothing: only the driver's orders drop bins.
  *
  * The constructor does nothing, because Spark creates instances on the driver, without `init`, to
  * ask for metrics.
  *
  * Threads: an instance may be used by several threads, a handle by one.
  */
class BinnedStateStoreProvider extends StateStoreProvider with SupportsFineGrainedReplay {
  private var session: ProviderSession = _

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConfs: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]
  ): Unit = {
    if (useMultipleValuesPerKey)
      require(useColumnFamilies, "Several values to a key need column families.")
    session = new ProviderSession(
      stateStoreId,
      keyStateEncoderSpec,
      valueSchema,
      useColumnFamilies,
      useMultipleValuesPerKey,
      stateSchemaProvider,
      storeConfs,
      hadoopConf
    )
  }

  override def stateStoreId: StateStoreId = session.id
  override def close(): Unit = ()

  /** Opens the state at `version` for writing. Throws UnsupportedQueryException for `loadEmpty`, a
    * store without the state before it: only Spark's offline rewrite of state asks for that.
    */
  override def getStore(
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = {
    if (version < 0) throw SparkPrivate.unexpectedVersion(version)
    if (loadEmpty) throw UnsupportedQueryException.rewrite(stateStoreId.toString)
    session.write(version, uniqueId, forceSnapshotOnCommit)
  }

  override def getReadStore(version: Long, uniqueId: Option[String]): ReadStateStore = {
    if (version < 0) throw SparkPrivate.unexpectedVersion(version)
    session.read(version, uniqueId)
  }

  override def upgradeReadStoreToWriteStore(
      readStore: ReadStateStore,
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean
  ): StateStore = {
    /* Spark passes the last read handle of the thread. Under a union that may be another operator's
     * handle, and on a thread that served another task before, that of another query. This task's
     * own state is opened in any case. */
    getStore(version, uniqueId, forceSnapshotOnCommit, loadEmpty = false)
  }

  /** The state at `endVersion`, read-only. Also throws if `snapshotVersion` does not exist. */
  override def replayStateFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      readOnly: Boolean,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): StateStore = {
    if (snapshotVersion < 1) throw SparkPrivate.unexpectedVersion(snapshotVersion)
    if (endVersion < snapshotVersion) throw SparkPrivate.unexpectedVersion(endVersion)
    session.replayed(
      snapshotVersion,
      snapshotVersionStateStoreCkptId,
      endVersion,
      endVersionStateStoreCkptId
    )
  }

  /** The changes of the batches that made the versions from `startVersion` to `endVersion`. */
  override def getStateStoreChangeDataReader(
      startVersion: Long,
      endVersion: Long,
      colFamilyNameOpt: Option[String],
      endVersionStateStoreCkptId: Option[String]
  ): ChangeRows = new ChangeRows(
    session.changes(startVersion, endVersion, endVersionStateStoreCkptId, colFamilyNameOpt)
  )

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] = OperatorMetrics.all
  override def supportedInstanceMetrics: Seq[StateStoreInstanceMetric] = Seq(
    OperatorMetrics.SnapshotLastUploaded
  )
  override def toString: String = s"BinnedStateStoreProvider[$stateStoreId]"
}
