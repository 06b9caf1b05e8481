// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.spark.sql.megaphone.{Allocation, SparkPrivate}

import io.megaphone.runtime.Drain
import io.megaphone.spark.query.PluginSession

/** What becomes of an executor that Spark decommissions. The test runs with all tests only. */
final class DecommissionSuite extends PluginSession {
  override protected def settings: Map[String, String] =
    Map("spark.master" -> "local-cluster[1,1,1024]")

  test("It is emptied, unless the configuration says that it is not.", isInShortRun = false) {
    val context = spark.sparkContext

    final class Watching {
      private val noticed = new CountDownLatch(1)
      private val membership =
        new Membership(context, () => Vector.empty, () => 0, _ => noticed.countDown())

      /** The drains that have begun once it has noticed, and placed workers anew for it. */
      def drains: Vector[(String, Drain.Cause)] =
        try {
          assert(noticed.await(60, TimeUnit.SECONDS))
          membership.drainsNow.map(drain => drain.executor -> drain.cause)
        } finally membership.stop()
    }
    spark.range(1).count() // by then the executor is there
    val executor = Allocation.registered(context).head
    val byDefault = new Watching
    SparkPrivate.conf(context).set("spark.megaphone.drain.onDecommission", "false")
    val notWanted = new Watching
    Allocation.cordon(context, executor)
    assert(byDefault.drains == Vector(executor -> Drain.Decommissioned))
    assert(notWanted.drains.isEmpty)
  }
}
