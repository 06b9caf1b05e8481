// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerBlockUpdated}

/** The blocks of which Spark's driver is told, from now on. */
final class BlockUpdates(context: SparkContext) {
  private val told = new ConcurrentLinkedQueue[String]()
  context.addSparkListener(new SparkListener {
    override def onBlockUpdated(event: SparkListenerBlockUpdated): Unit = {
      told.add(event.blockUpdatedInfo.blockId.name)
      ()
    }
  })

  /** The plugin's blocks among them. */
  def ofPlugin: Seq[String] = all.filter(_.contains("megaphone"))

  def all: Seq[String] = {
    context.listenerBus.waitUntilEmpty(60000)
    told.asScala.toSeq
  }
}
