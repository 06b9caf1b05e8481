// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.query

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.megaphone.BlockUpdates

/** The tests of a suite whose state moves, with two executors of one core that are processes: bins
  * go from the memory of one to that of the other. They run with all tests only.
  */
trait OnExecutors extends OperatorSession {
  override protected def settings: Map[String, String] =
    super.settings ++ OperatorSession.TwoExecutors ++ Map(
      "spark.megaphone.transfer.patienceBatches" -> "12"
    )

  override protected def test(name: String, tags: org.scalatest.Tag*)(body: => Any)(implicit
      at: org.scalactic.source.Position
  ): Unit =
    if (isLongRun && name.contains("move")) super.test(name, tags: _*)(body)

  override protected def comparedBatches: Int = 24

  private lazy val updates = new BlockUpdates(spark.sparkContext)

  override protected def beforeAll(): Unit = { super.beforeAll(); updates.all; () }

  override protected def lookAtMove(running: Running): Unit = {
    super.lookAtMove(running)
    assert(updates.all.nonEmpty, "the driver is told of no block, not even of a broadcast")
    assert(updates.ofPlugin.isEmpty, "the driver is told of the plugin's blocks")
    val metrics = running.movedIn.flatMap(running.progressOf).flatMap(_.customMetrics.asScala)
    assert(
      metrics.collect { case ("megaphoneBinsFromPeer", bins) => bins.longValue }.sum > 0,
      "no bin came from the other executor's memory"
    )
  }
}

final class OperatorBinsOnExecutorsSuite extends OperatorBinsSuite with OnExecutors

final class TransformWithStateOnExecutorsSuite extends TransformWithStateSuite with OnExecutors
