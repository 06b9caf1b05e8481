// SPDX-License-Identifier: Apache-2.0
package io.megaphone.provider

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.StateStoreId

import io.megaphone.format.{FileName, StateName}
import io.megaphone.log.BinLog
import io.megaphone.protocol.{Group, History, Operator}
import io.megaphone.store.{Holding, Recovery}
import io.megaphone.transfer.{HadoopStateFiles, Lz4}

/** A partition of the state at some version for a reader, as Spark's state data source is: rule 30.
  *
  *   1. Spark's readers count partitions by the first batch, whatever number of workers there is: partition p has the bins b with b mod n₀ = p.
  *   1. Bins, tables and operators are the plan log's, the ids are the commit log's; the session's configuration is asked nothing.
  *   1. Each bin is read from the files of the worker that owned it. No lease is taken, no memory of a run is touched.
  */
private[provider] final class ReaderState(id: StateStoreId, history: History, hadoopConf: Configuration) {
  private val first = history.first.get
  private val group: Group =
    first.groups
      .find(_.operators.exists(_.id == id.operatorId))
      .getOrElse(throw new NoSuchElementException(s"The plan log of this checkpoint knows no stateful operator ${id.operatorId}."))
  val operator: Operator = group.operators.find(_.id == id.operatorId).get
  val binsCount: Int = first.bins

  /** The bins of this partition at `version`. */
  def load(version: Long, hasCheckpointIds: Boolean): Holding = {
    val holding = new Holding(id.partitionId, binsCount)
    val mine = (0 until binsCount).filter(_ % group.firstWorkers == id.partitionId && id.partitionId < group.firstWorkers)
    if (version == 0) mine.foreach(bin => holding.put(bin, new BinLog, io.megaphone.format.Chain.Empty))
    else {
      val table = history.tableAt(group.id, version - 1)
      val ids = if (hasCheckpointIds) checkpointIds(version - 1) else Vector.empty
      val recovery = new Recovery(new HadoopStateFiles(new Path(id.checkpointRootLocation, id.operatorId.toString), id.storeName, hadoopConf), Lz4.All)
      mine.groupBy(table.workerOf).foreach { case (worker, bins) =>
        val name = StateName(version, if (ids.isEmpty) StateName.FixedId else ids(worker))
        recovery.load(FileName(worker, name), bins).bins.foreach { case (bin, (log, chain)) => holding.put(bin, log, chain) }
      }
    }
    holding
  }

  /** Ids of all workers at the end of a batch: Spark hands a reader only that of its own partition. */
  private def checkpointIds(batch: Long): Vector[String] = {
    val path = new Path(new Path(id.checkpointRootLocation).getParent, s"commits/$batch")
    val files = CheckpointFileManager.create(path.getParent, hadoopConf)
    val in = files.open(path)
    try {
      val text = new String(in.readAllBytes(), "UTF-8")
      val json = new ObjectMapper().readTree(text.substring(text.indexOf('\n') + 1))
      val index = operator.stores.indexOf(id.storeName)
      Option(json.path("stateUniqueIds").get(id.operatorId.toString)).fold(Vector.empty[String])(_.elements.asScala.map(_.get(index).asText).toVector)
    } finally in.close()
  }
}
