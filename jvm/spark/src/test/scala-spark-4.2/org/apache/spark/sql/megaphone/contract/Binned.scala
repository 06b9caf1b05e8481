// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.contract

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.megaphone.upstream.{Upstream, UpstreamSuites}
import org.apache.spark.sql.streaming.{StreamingQueryListener, StreamTest}
import org.apache.spark.sql.streaming.StreamingQueryListener._

import io.megaphone.MegaphonePlugin
import io.megaphone.spark.conf.MegaphoneConf

/** One of Spark's own suites, run with the plugin on, and on our provider wherever it asks for one
  * of Spark's.
  */
trait Binned extends StreamTest with Upstream {

  override protected def sparkConf: SparkConf =
    super.sparkConf
      .set("spark.plugins", classOf[MegaphonePlugin].getName)
      .set(SQLConf.STATE_STORE_PROVIDER_CLASS.key, MegaphoneConf.ProviderClass)

  override protected def withSQLConf[T](pairs: (String, String)*)(f: => T): T =
    super.withSQLConf(pairs.map { case (key, value) =>
      key -> (if (key == SQLConf.STATE_STORE_PROVIDER_CLASS.key) MegaphoneConf.ProviderClass
              else value)
    }: _*)(f)

  override def beforeAll(): Unit = {
    super.beforeAll()
    spark.conf.set(
      SQLConf.STATE_STORE_PROVIDER_CLASS.key,
      MegaphoneConf.ProviderClass
    ) // suites may have set another
    spark.streams.addListener(new Batches)
  }

  /** Batches of this suite that ran on bins. */
  private[contract] val batchesCount = new AtomicLong()

  private final class Batches extends StreamingQueryListener {
    override def onQueryStarted(event: QueryStartedEvent): Unit = ()
    override def onQueryProgress(event: QueryProgressEvent): Unit =
      if (
        event.progress.stateOperators
          .exists(o => Option(o.customMetrics.get("megaphoneBinsOwned")).exists(_ > 0))
      ) {
        batchesCount.incrementAndGet()
        Binned.batchesCount.incrementAndGet()
        ()
      }
    override def onQueryTerminated(event: QueryTerminatedEvent): Unit = ()
  }
}

object Binned {

  /** Batches of all suites that ran on bins. */
  private[contract] val batchesCount = new AtomicLong()
}

/** Suites of queries, which run on bins as on Spark's own providers. */
abstract class BinnedSuites(override val suites: Binned*)
    extends UpstreamSuites(Binned.batchesCount, UpstreamSuites.OnBins, suites: _*) {
  override protected def remark: String = s" on bins, in $counted batches with state"
  override protected def verify(): Unit = {
    val idle =
      suites.filter(suite => suite.passedCount > 0 && suite.batchesCount.get == 0).map(_.suiteName)
    if (idle.nonEmpty)
      throw new AssertionError(
        s"No batch of ${idle.mkString(", ")} ran on bins, so this run shows nothing of them."
      )
  }
}
