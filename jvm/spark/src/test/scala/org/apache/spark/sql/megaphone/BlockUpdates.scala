// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.UUID
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.rpc.{RpcEndpoint, RpcEnv}
import org.apache.spark.scheduler.{SparkListener, SparkListenerBlockUpdated}
import org.apache.spark.storage.{BlockManagerId, BlockUpdatedInfo}

/** The blocks of which Spark's driver is told, from now on. */
final class BlockUpdates(context: SparkContext) {
  private val told = new ConcurrentLinkedQueue[BlockUpdatedInfo]()
  context.addSparkListener(new SparkListener {
    override def onBlockUpdated(event: SparkListenerBlockUpdated): Unit = {
      told.add(event.blockUpdatedInfo)
      ()
    }
  })

  /** The plugin's blocks among them. */
  def ofPlugin: Seq[String] = all.filter(_.contains("megaphone"))

  def all: Seq[String] = updates.map(_.blockId.name)

  /** The executors of the blocks of RDDs among them, each with whether it has the block. */
  def ofRdds: Seq[(String, Boolean)] = updates.collect {
    case update if update.blockId.isRDD =>
      update.blockManagerId.executorId -> update.storageLevel.isValid
  }

  private def updates: Seq[BlockUpdatedInfo] = {
    context.listenerBus.waitUntilEmpty(60000)
    told.asScala.toSeq
  }

  /** Has the driver know an executor that keeps no blocks, until `forget`. */
  def know(executor: String): Unit = {
    val keeper = new RpcEndpoint { override val rpcEnv: RpcEnv = context.env.rpcEnv }
    val at = context.env.rpcEnv.setupEndpoint(s"$executor ${UUID.randomUUID()}", keeper)
    val id = BlockManagerId(executor, "nowhere", 1)
    master.registerBlockManager(id, Array.empty, 0, 0, at)
    ()
  }
  def forget(executor: String): Unit = master.removeExecutor(executor)

  private def master = context.env.blockManager.master
}
