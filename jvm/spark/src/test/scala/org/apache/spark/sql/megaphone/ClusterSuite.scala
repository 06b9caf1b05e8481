// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.{SparkConf, SparkContext}
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

/** Which executors there are, on a cluster of one. */
class ClusterSuite extends AnyFunSuite {
  test("an executor that a task could not fetch from is there as long as it lives") {
    val sc = new SparkContext(new SparkConf().setMaster("local-cluster[1,1,1024]").setAppName("f"))
    try {
      def there = Cluster.executors(sc)
      eventually(timeout(1.minute))(assert(there.map(_.id) == Vector("0")))
      val before = there
      // As Spark does then. The executor's next heartbeat brings it back.
      sc.env.blockManager.master.removeExecutorAsync("0")
      eventually(timeout(1.minute))(assert(there.isEmpty))
      assert(Cluster.executors(sc, before) == before)
      val dead = before.map(_.copy(id = "7"))
      assert(!Cluster.executors(sc, dead).exists(_.id == "7"))
    } finally sc.stop()
  }

  test("an executor that died as it registered is not there, although its blocks are listed") {
    val sc = new SparkContext(new SparkConf().setMaster("local-cluster[1,1,1024]").setAppName("c"))
    try {
      def ids = Cluster.executors(sc).map(_.id)
      eventually(timeout(1.minute))(assert(ids == Vector("0")))
      // Spark's scheduler never hears of it, and its block managers list it for ever.
      new BlockUpdates(sc).know("1")
      assert(sc.env.blockManager.master.getMemoryStatus.keys.exists(_.executorId == "1"))
      assert(ids == Vector("0"))
    } finally sc.stop()
  }
}
