// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.spark.SparkConf
import org.apache.spark.sql.megaphone.{Allocation, SparkPrivate}

import io.megaphone.runtime.Drain
import io.megaphone.spark.query.PluginSession

/** What becomes of an executor that Spark decommissions. The tests run with all tests only. */
final class DecommissionSuite extends PluginSession {
  override protected def settings: Map[String, String] =
    Map("spark.master" -> "local-cluster[1,1,1024]")

  private def context = spark.sparkContext
  private lazy val executor = {
    spark.range(1).count() // by then it is there
    Allocation.registered(context).head
  }

  /** Looks after the executors as the configuration says that there is now. */
  private final class Watching(nextCounter: Long = 0) {
    private val noticed = new CountDownLatch(1)
    private val membership =
      new Membership(context, () => Vector.empty, () => nextCounter, _ => noticed.countDown())

    /** The drains that have begun once it has noticed, and placed workers anew for it. */
    def drains: Vector[Drain] =
      try {
        assert(noticed.await(60, TimeUnit.SECONDS))
        membership.drainsNow
      } finally membership.stop()
  }

  private def watchingWith(nextCounter: Long, settings: (String, String)*): Watching = {
    val conf: SparkConf = SparkPrivate.conf(context)
    settings.foreach { case (key, value) => conf.set(key, value) }
    try new Watching(nextCounter)
    finally settings.foreach { case (key, _) => conf.remove(key) }
  }

  test("It is emptied, unless the configuration says that it is not.", isInShortRun = false) {
    val byDefault = new Watching
    val notWanted = watchingWith(0, "spark.megaphone.drain.onDecommission" -> "false")
    Allocation.cordon(context, executor)
    val begun = byDefault.drains.map(drain => drain.executor -> drain.cause)
    assert(begun == Vector(executor -> Drain.Decommissioned))
    assert(notWanted.drains.isEmpty)
  }

  /** How far the executor is if Spark's own keys tell these times. Its report never comes, so it is
    * to be emptied until its time is up.
    */
  private def statusWith(times: (String, String)*): Drain.Status = {
    Allocation.cordon(context, executor) // called again, nothing happens
    watchingWith(nextCounter = 1, times: _*).drains.head.status
  }

  private val keys = Seq(
    "spark.executor.decommission.killInterval",
    "spark.executor.decommission.forceKillTimeout",
    "spark.kubernetes.executor.terminationGracePeriodSeconds"
  )

  for (least <- keys)
    test(s"Its time is the least that is told: that of $least.", isInShortRun = false) {
      val others = keys.filter(_ != least).map(_ -> "1h")
      assert(statusWith(others :+ (least -> "0"): _*) == Drain.Overdue)
      assert(statusWith(least -> "0") == Drain.Overdue, "alone")
    }

  test("Its time is as long as the shortest that is told, or has no end.", isInShortRun = false) {
    assert(statusWith(keys.map(_ -> "3600"): _*) == Drain.Draining)
    assert(statusWith() == Drain.Draining)
  }
}
