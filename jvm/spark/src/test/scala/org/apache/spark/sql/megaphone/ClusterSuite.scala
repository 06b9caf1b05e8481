// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.{SparkConf, SparkContext}
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

/** Which executors there are, on a cluster of one. */
class ClusterSuite extends AnyFunSuite {
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
