// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import com.codahale.metrics.MetricRegistry
import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.{Servlets, SparkPrivate}

import io.megaphone.runtime.{Committed, PlacingNews}
import io.megaphone.spark.driver.{ApplicationDriver, Observer, QueryDriver}
import io.megaphone.spark.metrics.{Happening, LabelledMetrics, Shown}

/** The metrics of an application: counts what happens to its queries, and shows how it is.
  *
  * A plan is counted when it is over, once, whichever thread finds out. Whether its last batch is
  * committed is looked up in files before any lock is taken.
  *
  * Threads: any.
  */
private[metrics] final class DriverMetrics(application: ApplicationDriver, registry: MetricRegistry)
    extends Observer
    with Logging {
  private val planEnds = new PlanEnds
  private val hasFailed = new AtomicBoolean
  private val registered = new Registered(registry, read)

  override def began(query: QueryDriver): Unit =
    planEnds.began(idOf(query), query.runId, PlansOfRun.overBefore(query.state))

  override def changed(query: QueryDriver): Unit = countPlans(query)

  override def arrived(query: QueryDriver, commit: Committed): Unit =
    registered.happened(Happening.Arrived(commit.arrivals))

  override def placed(query: QueryDriver, news: PlacingNews): Unit = {
    news.losses.foreach(loss => registered.happened(Happening.Lost(loss)))
    news.ended.foreach(relocation => registered.happened(Happening.Relocated(relocation)))
  }

  override def ended(query: QueryDriver, error: Option[String]): Unit =
    try countPlans(query)
    finally planEnds.ended(idOf(query), query.runId)

  /** The page with labels. */
  def page: String = {
    val shown = now
    val gauges = LabelledMetrics.all.map { metric =>
      val samples =
        metric.samples(shown).map { case (labels, value) => Exposition.Sample(labels, value) }
      Exposition.Family(metric.name, "gauge", metric.help, samples)
    }
    Exposition.text(gauges ++ registered.families)
  }

  private def countPlans(query: QueryDriver): Unit = query.snapshot.foreach { seen =>
    val isCounted = planEnds.isCounted(idOf(query), _)
    val committed =
      if (PlansOfRun.asksForCommitted(seen, isCounted)) query.query.latestCommittedBatch else None
    val ends = planEnds.ends(idOf(query), query.runId) {
      val state = query.state
      PlanEnds.Plans(state.history.plans.keySet, PlansOfRun.over(state, committed, isCounted))
    }
    ends.foreach(status => registered.happened(Happening.PlanEnded(status)))
  }

  private def idOf(query: QueryDriver) = query.query.id.toString

  private def now: Shown =
    if (application.context.isStopped) Shown.Nothing else new ShownNow(application)

  /** The value of a gauge; 0 if it cannot be read, so that Spark's other metrics are shown. */
  private[metrics] def read(of: Shown => Long): Long =
    try of(now)
    catch {
      case NonFatal(e) =>
        if (!hasFailed.getAndSet(true))
          logWarning("A metric could not be read, and is shown as 0; this is said once.", e)
        0L
    }
}

private[megaphone] object DriverMetrics extends Logging {

  /** Where the page with labels is, below the address of the live UI. */
  val Path = "/metrics/megaphone"

  /** Registers the metrics and attaches the page, if the application has a UI. Whatever fails is
    * logged, and costs the metrics or the page; nothing is thrown.
    */
  def install(application: ApplicationDriver, registry: MetricRegistry): Unit =
    attempt("The plugin's metrics could not be registered.") {
      val metrics = new DriverMetrics(application, registry)
      application.observe(metrics)
      attempt(s"The page $Path/ could not be attached.") {
        val servlet = new MetricsServlet(() => metrics.page)
        SparkPrivate.ui(application.context).foreach(Servlets.attach(_, Path, servlet))
      }
    }

  private def attempt(problem: String)(body: => Unit): Unit =
    try body
    catch { case e @ (NonFatal(_) | _: LinkageError) => logWarning(problem, e) }
}
