// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.{MapOutputTrackerMaster, SparkConf, SparkContext}
import org.apache.spark.shuffle.api.ShuffleDriverComponents
import org.apache.spark.shuffle.sort.io.{LocalDiskShuffleDataIO, LocalDiskShuffleDriverComponents}
import org.scalatest.funsuite.AnyFunSuite

/** What an executor has that nobody else has. */
class AllocationSuite extends AnyFunSuite {
  for (isKept <- Seq(false, true)) test(s"map output is gone with its executor: ${!isKept}") {
    val conf = new SparkConf().setMaster("local[1]").setAppName(suiteName)
    if (isKept) conf.set("spark.shuffle.sort.io.plugin.class", classOf[KeptElsewhere].getName)
    val sc = new SparkContext(conf)
    try {
      sc.parallelize(Seq(1, 2, 3), 2).map(i => i -> i).reduceByKey(_ + _).collect()
      val shuffles = sc.env.mapOutputTracker match {
        case tracker: MapOutputTrackerMaster => tracker.shuffleStatuses.keySet.toSet
        case other => fail(s"$other")
      }
      assert(shuffles.nonEmpty)
      assert(Allocation.hasOutput(sc, shuffles, SparkContext.DRIVER_IDENTIFIER) != isKept)
      assert(!Allocation.hasOutput(sc, Set.empty, SparkContext.DRIVER_IDENTIFIER))
      assert(!Allocation.hasOutput(sc, shuffles, "another"))
    } finally sc.stop()
  }
}

/** Says that map output is somewhere that outlives its executor. */
final class KeptElsewhere(conf: SparkConf) extends LocalDiskShuffleDataIO(conf) {
  override def driver(): ShuffleDriverComponents = new LocalDiskShuffleDriverComponents {
    override def supportsReliableStorage: Boolean = true
  }
}
