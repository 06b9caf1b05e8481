// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.StateStoreId

import io.megaphone.checkpoint.{Change, Changes, Recovery, Settled}
import io.megaphone.checkpoint.planlog.History
import io.megaphone.format.{Chain, FileName, StoreId, VersionIds}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.HeapBudget
import io.megaphone.plan.{Group, Operator, RoutingTable}
import io.megaphone.spark.checkpoint.{HadoopStateFiles, Lz4}
import io.megaphone.spark.executor.ExecutorHost
import io.megaphone.state.Holding

/** Loads one partition of the state for a reader such as Spark's state data source: rule 23.
  *
  * Given a partition p, a version v and the plan log. Spark's readers count partitions by the first
  * batch, which had n₀, whatever the number of workers is now.
  *   1. The bins, tables and operators come from the plan log, and the ids from commit log v-1. The
  *      session's configuration is not read.
  *   1. Partition p has the bins b with b mod n₀ = p.
  *   1. Each bin is read from the files of the worker that had it in batch v-1. No lease is taken,
  *      and no memory of a run is touched.
  *
  * @param checkLoaded
  *   throws if records that were read are not those that were written
  */
private[provider] final class ReaderState(
    id: StateStoreId,
    history: History,
    hadoopConf: Configuration,
    checkLoaded: Array[Byte] => Unit
) {
  private val first = history.first.get
  private val group: Group =
    history.last.get.groups // the newest start record has all families
      .find(_.operators.exists(_.id == id.operatorId))
      .getOrElse(
        throw new NoSuchElementException(
          s"The plan log of this checkpoint knows no stateful operator ${id.operatorId}."
        )
      )
  val operator: Operator = group.operators.find(_.id == id.operatorId).get
  val binsCount: Int = first.bins
  private val store = StoreId(id.operatorId, id.storeName)

  /** The bins of this partition at `version`. */
  def load(version: Long, hasCheckpointIds: Boolean): Holding =
    load(version, hasCheckpointIds, mine)

  /** The changes that the batch that made `version` made to the bins of this partition. */
  def changes(version: Long, hasCheckpointIds: Boolean): Iterator[Change] =
    filesAt(version, hasCheckpointIds, mine).iterator.flatMap { case (file, bins) =>
      recovery.frames(file, bins.toSet, tableAt(version).contentHash).iterator.flatMap {
        case (frame, records) =>
          Changes.of(
            frame,
            records,
            load(version - 1, hasCheckpointIds, Seq(frame.bin)).log(frame.bin)
          )
      }
    }

  /** Throws if the state at `version` no longer exists, or does not exist yet. */
  def check(version: Long, hasCheckpointIds: Boolean): Unit =
    filesAt(version, hasCheckpointIds, mine).keys.foreach(
      recovery.footer(_, tableAt(version).contentHash)
    )

  private val mine = (0 until binsCount).filter(
    _ % group.firstWorkers == id.partitionId && id.partitionId < group.firstWorkers
  )
  private lazy val recovery =
    new Recovery(
      new HadoopStateFiles(
        new Path(id.checkpointRootLocation, id.operatorId.toString),
        id.storeName,
        hadoopConf
      ),
      Lz4.All,
      budget = ExecutorHost.active.fold(HeapBudget.Unlimited)(_.newBudget()),
      check = checkLoaded
    )

  private def load(version: Long, hasCheckpointIds: Boolean, wanted: Seq[Int]): Holding = {
    val holding = new Holding(id.partitionId, binsCount)
    if (version == 0) wanted.foreach(bin => holding.put(bin, new BinLog, Chain.Empty))
    else
      filesAt(version, hasCheckpointIds, wanted).foreach { case (file, bins) =>
        val loaded = recovery.load(file, bins, tableAt(version).contentHash)
        loaded.bins.valuesIterator.foreach(holding.put)
      }
    holding
  }

  /** The table of the batch that made `version`. */
  private def tableAt(version: Long): RoutingTable = history.tableAt(group.id, version - 1)

  /** The wanted bins at `version`, by the file that their worker wrote at the end of the batch. */
  private def filesAt(
      version: Long,
      hasCheckpointIds: Boolean,
      wanted: Seq[Int]
  ): Map[FileName, Seq[Int]] = {
    val table = tableAt(version)
    val ids = if (hasCheckpointIds) checkpointIds(version - 1) else VersionIds.Fixed
    wanted.groupBy(table.workerOf).map { case (worker, bins) =>
      Settled.headOf(store, ids, version, worker) -> bins
    }
  }

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
