// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.neutrality

import scala.collection.mutable

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.StaticSQLConf
import org.apache.spark.sql.streaming.StreamTest
import org.scalatest.{Args, Status, Suites}

/** One of Spark's own suites, run with all its state re-routed, or, where the environment has `MEGAPHONE_NEUTRALITY=stock`, as it is. */
trait Neutral extends StreamTest {

  /** Tests that fail without the rule too, by the reason. */
  def failingWithout: Map[String, String] = Map.empty

  private val passed = mutable.LinkedHashSet.empty[String]
  private val failed = mutable.LinkedHashSet.empty[String]

  override protected def sparkConf: SparkConf =
    if (Neutral.isStock) super.sparkConf else super.sparkConf.set(StaticSQLConf.SPARK_SESSION_EXTENSIONS, Seq(classOf[ScrambledRouting].getName))

  override protected def excluded: Seq[String] = super.excluded ++ (if (Neutral.isStock) Nil else failingWithout.keys)

  override protected def runTest(testName: String, args: Args): Status = {
    val status = super.runTest(testName, args)
    (if (status.succeeds()) passed else failed) += testName
    status
  }

  /** Tests that passed and all that ran or are known to fail. */
  private[neutrality] def counts: (Int, Int) = (passed.size, passed.size + failed.size + (if (Neutral.isStock) 0 else failingWithout.size))
  private[neutrality] def failures: Set[String] = failed.toSet
}

/** Runs suites one after the other, and says how many of their tests pass. */
abstract class NeutralSuites(suites: Neutral*) extends Suites(suites: _*) {

  override def run(testName: Option[String], args: Args): Status = {
    val before = ScrambledRouting.reroutedCount.get
    val status = super.run(testName, args)
    status.waitUntilCompleted()
    val rerouted = ScrambledRouting.reroutedCount.get - before
    if (suites.nonEmpty) report(rerouted)
    status
  }

  private def report(rerouted: Long): Unit = {
    val (passed, all) = suites.map(_.counts).unzip
    val how = if (Neutral.isStock) "without the rule" else s"with the rule, as without it: $rerouted groups were re-routed"
    println(s"$suiteName: ${passed.sum} of ${all.sum} upstream tests pass $how")
    if (!Neutral.isStock && rerouted == 0) throw new AssertionError("The rule re-routed nothing, so this run shows nothing.")
    val unlisted = suites.filter(suite => Neutral.isStock && suite.failures != suite.failingWithout.keySet)
    if (unlisted.nonEmpty)
      throw new AssertionError(unlisted.map(s => s"${s.suiteName}: without the rule fail ${s.failures}, listed are ${s.failingWithout.keySet}").mkString("\n"))
  }
}

object Neutral {

  /** Whether the suites run as they are: the yardstick, by which the lists of tests that fail anyway are kept. */
  val isStock: Boolean = sys.env.get("MEGAPHONE_NEUTRALITY").contains("stock")

  /** Whether all tests are asked for, those too that take long. */
  val isAll: Boolean = isStock || sys.env.get("MEGAPHONE_TESTS").contains("all")
}
