// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.contract

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.megaphone.upstream.Upstream
import org.scalatest.DoNotDiscover

import io.megaphone.MegaphonePlugin
import io.megaphone.spark.conf.MegaphoneConf

/** What opens stores in tasks, and what knows where they are, runs with ours. */
final class StoresOfTasksContractSuite
    extends StandAloneSuites(
      StoresOfTasksContractSuite.onOurs(new BinnedRdds),
      new BinnedCoordinator
    )

private object StoresOfTasksContractSuite {

  /** Why tests of stores that lag are not run. */
  val Lagging =
    "runs subclasses of Spark's own providers that leave out maintenance, by the names of their " +
      "classes, and asserts that these stores lag"

  /** Makes a suite that has a configuration of its own: it starts from the system's properties. */
  def onOurs[A](make: => A): A = {
    val ours = Map(
      "spark.plugins" -> classOf[MegaphonePlugin].getName,
      SQLConf.STATE_STORE_PROVIDER_CLASS.key -> classOf[StandAloneProvider].getName
    )
    ours.foreach { case (key, value) => System.setProperty(key, value) }
    try make
    finally ours.keys.foreach(System.clearProperty)
  }
}

@DoNotDiscover class BinnedRdds extends StateStoreRDDSuite with Upstream {
  override def leftOut: Seq[(String, String)] = super.leftOut ++ Seq(
    "SPARK-51955" ->
      ("sets RocksDB's provider in its session, and asserts that its handle to write by is the " +
        "object that is its handle to read by"),
    "SPARK-51823" ->
      ("sets a configuration that queries on our provider are refused for: to unload state at " +
        "each commit")
  )
}

@DoNotDiscover class BinnedCoordinator extends StateStoreCoordinatorSuite with Upstream {
  import StoresOfTasksContractSuite.Lagging

  conf
    .set("spark.plugins", classOf[MegaphonePlugin].getName)
    .set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, MegaphoneConf.ProviderClass)

  override def leftOut: Seq[(String, String)] = super.leftOut ++ Seq(
    "SPARK-54063: reportActiveInstance" -> "leaves behind what the tests after it stumble over",
    "SPARK-54063: Force trigger" -> Lagging,
    "SPARK-54063: force snapshot propagate" -> Lagging,
    "SkipMaintenanceOnCertainPartitionsProvider are" -> Lagging,
    "simultaneous query runs" -> Lagging,
    "all state stores are lagging" -> Lagging,
    "if changelog checkpointing is disabled" ->
      "is about a setting of RocksDB's, and sets its provider by the name of its class",
    "SPARK-51358" ->
      "sets Spark's own providers by the names of their classes, in a session that it makes itself"
  )
}
