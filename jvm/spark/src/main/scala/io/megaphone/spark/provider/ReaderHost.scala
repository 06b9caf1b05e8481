// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.StateStoreId

import io.megaphone.checkpoint.{Change, Recovery}
import io.megaphone.checkpoint.planlog.History
import io.megaphone.format.{StoreId, VersionIds}
import io.megaphone.log.memory.HeapBudget
import io.megaphone.plan.Operator
import io.megaphone.runtime.StateReader
import io.megaphone.spark.checkpoint.{HadoopStateFiles, Lz4}
import io.megaphone.spark.executor.ExecutorHost
import io.megaphone.state.Holding

/** Spark's host of a [[io.megaphone.runtime.StateReader]], for readers such as the state data
  * source: brings the files, and the ids from the commit log. The session's configuration is not
  * read.
  *
  * @param checkLoaded
  *   throws if records that were read are not those that were written
  */
private[provider] final class ReaderHost(
    id: StateStoreId,
    history: History,
    hadoopConf: Configuration,
    checkLoaded: Array[Byte] => Unit
) {
  private lazy val recovery = {
    val folder = new Path(id.checkpointRootLocation, id.operatorId.toString)
    new Recovery(
      new HadoopStateFiles(folder, id.storeName, hadoopConf),
      Lz4.All,
      budget = ExecutorHost.active.fold(HeapBudget.Unlimited)(_.readerBudget(id.partitionId)),
      check = checkLoaded
    )
  }
  private val reader =
    new StateReader(history, StoreId(id.operatorId, id.storeName), id.partitionId, recovery)

  def operator: Operator = reader.operator
  def binsCount: Int = reader.binsCount

  /** The bins of this partition at `version`. */
  def load(version: Long, hasCheckpointIds: Boolean): Holding =
    reader.load(version, idsAt(hasCheckpointIds))

  /** The changes that the batch that made `version` made to the bins of this partition. */
  def changes(version: Long, hasCheckpointIds: Boolean): Iterator[Change] =
    reader.changes(version, idsAt(hasCheckpointIds))

  /** Throws if the state at `version` no longer exists, or does not exist yet. */
  def check(version: Long, hasCheckpointIds: Boolean): Unit =
    reader.check(version, idsAt(hasCheckpointIds))

  private def idsAt(hasCheckpointIds: Boolean)(version: Long): VersionIds =
    if (hasCheckpointIds) checkpointIds(version - 1) else VersionIds.Fixed

  /** Ids of all workers at the end of a batch. Spark gives a reader only its own partition's id. */
  private def checkpointIds(batch: Long): VersionIds = {
    val path = new Path(new Path(id.checkpointRootLocation).getParent, s"commits/$batch")
    val files = CheckpointFileManager.create(path.getParent, hadoopConf)
    val in = files.open(path)
    try {
      val text = new String(in.readAllBytes(), "UTF-8")
      val json = new ObjectMapper().readTree(text.substring(text.indexOf('\n') + 1))
      val index = operator.stores.indexOf(id.storeName)
      VersionIds(
        Option(json.path("stateUniqueIds").get(id.operatorId.toString))
          .fold(Vector.empty[String])(_.elements.asScala.map(_.get(index).asText).toVector)
      )
    } finally in.close()
  }
}
