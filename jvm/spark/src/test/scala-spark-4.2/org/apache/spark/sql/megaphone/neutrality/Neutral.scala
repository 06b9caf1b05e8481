// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.neutrality

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}
import org.apache.spark.sql.megaphone.upstream.{Upstream, UpstreamSuites}
import org.apache.spark.sql.streaming.StreamTest

import io.megaphone.spark.checkpoint.SchemeCheckpointFileManager
import io.megaphone.testkit.LongRun

/** One of Spark's own suites, run with all its state re-routed, or, where the environment has
  * `MEGAPHONE_NEUTRALITY=stock`, as it is. Its files are written without forks either way, to be
  * done sooner.
  */
trait Neutral extends StreamTest with Upstream {

  /** Tests that fail without the rule too, by the reason. */
  def failingWithout: Seq[(String, String)] = Nil

  override protected def sparkConf: SparkConf = {
    val conf = super.sparkConf.set(
      SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key,
      classOf[SchemeCheckpointFileManager].getName
    )
    if (Neutral.isStock) conf
    else conf.set(StaticSQLConf.SPARK_SESSION_EXTENSIONS, Seq(classOf[ScrambledRouting].getName))
  }

  override def leftOut: Seq[(String, String)] = if (Neutral.isStock) Nil else failingWithout
}

/** Suites that must not notice the rule. */
abstract class NeutralSuites(suites: Neutral*)
    extends UpstreamSuites(ScrambledRouting.reroutedCount, "with the rule on", suites: _*) {
  override protected def remark: String = if (Neutral.isStock) " without the rule"
  else s" with the rule, as without it: $counted groups were re-routed"

  override protected def verify(): Unit = {
    if (!Neutral.isStock) checkCounted("The rule re-routed nothing")
    val unlisted = suites.filter(suite =>
      Neutral.isStock && suite.failures != suite.failingWithout.map(_._1).toSet
    )
    if (unlisted.nonEmpty)
      throw new AssertionError(
        unlisted
          .map(s =>
            s"${s.suiteName}: without the rule fail ${s.failures}, listed are " +
              s"${s.failingWithout.map(_._1).toSet}"
          )
          .mkString("\n")
      )
  }
}

object Neutral {

  /** Whether the suites run as they are: the yardstick, by which the lists of tests that fail
    * anyway are kept.
    */
  val isStock: Boolean = sys.env.get("MEGAPHONE_NEUTRALITY").contains("stock")

  /** Whether all tests are asked for, those too that take long. */
  val isAll: Boolean = isStock || LongRun.isOn
}
