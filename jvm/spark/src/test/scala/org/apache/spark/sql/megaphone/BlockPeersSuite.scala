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

  private def block(source: Int) = BlockName(
    StoreId(0, "default").in("run"),
    source,
    9,
    StateName(1, ""),
    BlockKind.Image,
    StepId("plan", 0, 0)
  )

  test("Several blocks are pulled at once.") {
    val threads = Executors.newCachedThreadPool()
    val together = new CountDownLatch(5)
    val faults = new FaultPoints {
      override def at(point: String): Unit = { together.countDown(); together.await() }
      override def published(bytes: Array[Byte]): Option[Array[Byte]] = Some(bytes)
    }
    val peers = new BlockPeers(new BlockStore(SparkEnv.get), threads, threads, faults)
    try {
      (0 until 4).foreach(source => peers.publish(block(source), Array(source.toByte)))
      val wanted = (0 until 5).map(source => block(source) -> peers.address)
      val come = peers.pullAll(wanted, deadlineMs = 60000)
      assert(
        come.map { case (b, bytes) => b.source -> bytes.toSeq } ==
          (0 until 4).map(source => source -> Seq(source.toByte)).toMap
      )
      assert(peers.pull(block(4), peers.address, 60000).isEmpty)
    } finally { peers.keep(_ => false); threads.shutdown() }
  }

  test("Obeying orders does not wait for a reader of an old block that hangs.") {
    val threads = Executors.newCachedThreadPool()
    val manager = SparkEnv.get.blockManager
    val peers =
      new BlockPeers(new BlockStore(SparkEnv.get), threads, threads, FaultPoints.Off)
    val id = TestBlockId(block(0).toString)
    peers.publish(block(0), Array[Byte](1, 2, 3))
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
