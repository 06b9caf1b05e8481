// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.contract

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.megaphone.RoutingRule
import org.apache.spark.sql.megaphone.upstream.Upstream
import org.scalatest.DoNotDiscover

import io.megaphone.MegaphonePlugin

/** What opens stores in tasks, and what knows where they are, runs with ours. */
final class StoresOfTasksContractSuite extends StandAloneSuites(StoresOfTasksContractSuite.onOurs(new BinnedRdds), new BinnedCoordinator)

private object StoresOfTasksContractSuite {

  /** Makes a suite that has a configuration of its own: it starts from the system's properties. */
  def onOurs[A](make: => A): A = {
    val ours = Map("spark.plugins" -> classOf[MegaphonePlugin].getName, SQLConf.STATE_STORE_PROVIDER_CLASS.key -> classOf[StandAloneProvider].getName)
    ours.foreach { case (key, value) => System.setProperty(key, value) }
    try make
    finally ours.keys.foreach(System.clearProperty)
  }
}

@DoNotDiscover class BinnedRdds extends StateStoreRDDSuite with Upstream {
  override def leftOut: Seq[(String, String)] = super.leftOut ++ Seq(
    "SPARK-51955" -> "sets one of Spark's own providers",
    "SPARK-51823" -> "unloads stores at each commit, which is refused",
    "distributed test" -> "starts executors from a distribution of Spark"
  )
}

@DoNotDiscover class BinnedCoordinator extends StateStoreCoordinatorSuite with Upstream {
  conf.set("spark.plugins", classOf[MegaphonePlugin].getName).set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, RoutingRule.Provider)

  override def leftOut: Seq[(String, String)] = super.leftOut ++ Seq(
    "SPARK-54063" -> "sets one of Spark's own providers",
    "SPARK-51358" -> "sets one of Spark's own providers"
  )
}
