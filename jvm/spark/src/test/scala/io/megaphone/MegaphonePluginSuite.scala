// SPDX-License-Identifier: Apache-2.0
package io.megaphone

import org.apache.spark.SparkConf
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.OtherSparkException
import io.megaphone.spark.driver.BuiltFor

/** What the plugin checks and sets when an application starts. */
class MegaphonePluginSuite extends AnyFunSuite {
  private val Extensions = "spark.sql.extensions"
  private val Listeners = "spark.sql.streaming.streamingQueryListeners"
  private val Provider = "spark.sql.streaming.stateStore.providerClass"
  private val Ours = "io.megaphone.MegaphoneExtensions"
  private val OurListener = "io.megaphone.spark.driver.QueryListener"

  private def configured(settings: (String, String)*): SparkConf = {
    val conf = new SparkConf(false).setAll(settings)
    MegaphonePlugin.configure(conf)
    conf
  }

  test("A configuration without the keys gets all of them.") {
    val conf = configured()
    assert(conf.get(Extensions) == Ours)
    assert(conf.get(Listeners) == OurListener)
    assert(conf.get(Provider) == "io.megaphone.BinnedStateStoreProvider")
    assert(conf.contains("spark.sql.streaming.checkpointFileManagerClass"))
  }

  test("Lists of the user are extended, once.") {
    val conf = configured(Extensions -> "a.B, c.D", Listeners -> s"$OurListener,e.F")
    assert(conf.get(Extensions) == s"a.B,c.D,$Ours")
    assert(conf.get(Listeners) == s"$OurListener,e.F")
    MegaphonePlugin.configure(conf)
    assert(conf.get(Extensions) == s"a.B,c.D,$Ours")
  }

  test("A provider and a file manager of the user stay.") {
    val manager = "spark.sql.streaming.checkpointFileManagerClass" -> "g.H"
    val conf = configured(Provider -> "i.J", manager)
    assert(conf.get(Provider) == "i.J")
    assert(conf.get(manager._1) == manager._2)
  }

  test("A jar is for one minor version of Spark, whoever made the patch release.") {
    Seq("4.3", "4.3.0", "4.3.1-SNAPSHOT", "4.3.0-vendor-2").foreach(
      MegaphonePlugin.checkSpark("4.3", _)
    )
    Seq("4.2.0", "4.30.0", "5.4.3").foreach { running =>
      val refused = intercept[OtherSparkException](MegaphonePlugin.checkSpark("4.3", running))
      assert(refused.condition == "JAR_FOR_OTHER_SPARK")
      assert(
        refused.getMessage.startsWith(
          s"This jar of spark-megaphone was built for Spark 4.3, but Spark $running runs; "
        )
      )
    }
  }

  test("This jar is for the Spark that the tests run on.") {
    MegaphonePlugin.checkSpark(BuiltFor.SparkMinor, org.apache.spark.SPARK_VERSION)
  }
}
