// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}

import org.apache.spark.SparkEnv
import org.apache.spark.storage.TestBlockId
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.format.{StateName, StoreId}
import io.megaphone.plan.StepId
import io.megaphone.runtime.FaultPoints
import io.megaphone.spark.executor.BlockPeers
import io.megaphone.spark.query.PluginSession
import io.megaphone.transfer.{BlockKind, BlockName}

/** Blocks in Spark's block manager. */
final class BlockPeersSuite extends PluginSession {

  test("Obeying orders does not wait for a reader of an old block that hangs.") {
    val threads = Executors.newCachedThreadPool()
    val manager = SparkEnv.get.blockManager
    val peers =
      new BlockPeers(new BlockStore(SparkEnv.get), threads, threads, FaultPoints.Off)
    val block = BlockName(
      StoreId(0, "default").in("run"),
      0,
      1,
      StateName(1, ""),
      BlockKind.Image,
      StepId("plan", 0, 0)
    )
    val id = TestBlockId(block.toString)
    peers.publish(block, Array[Byte](1, 2, 3))
    val (reads, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    try {
      threads.execute { () =>
        val data = manager.getLocalBytes(id)
        reads.countDown()
        goOn.await()
        manager.releaseLock(id)
        data.foreach(_.dispose())
      }
      reads.await()
      threads.submit((() => peers.keep(_ => false)): Runnable).get(60, TimeUnit.SECONDS)
      assert(peers.publishedCount == 0 && manager.getStatus(id).isDefined)
      goOn.countDown()
      eventually(timeout(60.seconds))(assert(manager.getStatus(id).isEmpty))
    } finally { goOn.countDown(); threads.shutdown() }
  }
}
