// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.util.concurrent.atomic.AtomicBoolean

import com.codahale.metrics.MetricRegistry
import org.apache.spark.sql.megaphone.{Servlets, SparkPrivate}
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.SpanSugar._

import io.megaphone.runtime.Committed
import io.megaphone.spark.driver.{ApplicationDriver, Observer, QueryDriver, TableRows}
import io.megaphone.spark.faces.api.MegaphoneApi
import io.megaphone.spark.metrics.ApplicationMetrics
import io.megaphone.spark.query.KeyedSession

/** The metrics of an application with real queries, as both pages of the live UI show them. */
class DriverMetricsSuite extends KeyedSession {
  private val sink = "spark.metrics.conf.driver.sink.prometheusServlet"

  override protected def settings: Map[String, String] = Map(
    "spark.ui.enabled" -> "true",
    "spark.ui.port" -> "0",
    "spark.metrics.namespace" -> "tests",
    s"$sink.class" -> "org.apache.spark.metrics.sink.PrometheusServlet",
    s"$sink.path" -> "/metrics/prometheus",
    "spark.ui.filters" -> classOf[HeaderUser].getName,
    "spark.acls.enable" -> "true",
    "spark.ui.view.acls" -> "reader"
  )

  private val client = HttpClient.newHttpClient()
  private def asked(path: String, user: String = "reader", method: String = "GET") = {
    val address = URI.create(s"${spark.sparkContext.uiWebUrl.get}$path")
    val request = HttpRequest
      .newBuilder(address)
      .header(HeaderUser.Header, user)
      .method(method, HttpRequest.BodyPublishers.noBody())
    client.send(request.build(), HttpResponse.BodyHandlers.ofString())
  }

  private def page: Vector[Exposition.Family] = ParsedPage.of(asked("/metrics/megaphone/").body())

  /** The values of a family by labels. */
  private def values(name: String): Map[Map[String, String], Long] =
    page
      .find(_.name == s"spark_megaphone_$name")
      .get
      .samples
      .map(s => s.labels.toMap -> s.value.toLong)
      .toMap

  private def total(name: String): Long = values(s"${name}_total")(Map.empty)

  /** What Spark's own page shows, by the name that Spark makes. */
  private def dropwizard: Map[String, String] =
    asked("/metrics/prometheus/")
      .body()
      .linesIterator
      .map(_.split(' '))
      .collect { case Array(key, value) =>
        key.takeWhile(_ != '{') -> value
      }
      .toMap
  private val Plugin = "metrics_tests_driver_plugin_io_megaphone_MegaphonePlugin"

  private def application = ApplicationDriver.active.get
  private def driverOf(running: Running): QueryDriver =
    application.query(running.query.runId.toString).get

  /** Metrics of their own, which are told of what an observer is told of. */
  private def observing(forward: Observer => Observer): MetricRegistry = {
    val registry = new MetricRegistry
    application.observe(forward(new DriverMetrics(application, registry)))
    registry
  }
  private def count(registry: MetricRegistry, name: String) = registry.counter(name).getCount

  test("Numbers of a query and a rescale: the tables' own.") {
    val source = new Source
    val running = start(source.stream.groupBy("k").count(), "update")
    source.feed()
    running.query.processAllAvailable()
    val movedBefore = total("bins_moved")
    running.rescale(5, () => source.feed(), strategy = "all-at-once")
    val driver = driverOf(running)
    eventually(timeout(30.seconds)) {
      assert(total("plans_done") == 1)
      val run = driver.runId
      val expected = TableRows
        .workers(driver)
        .map { w =>
          Map(
            "query" -> driver.query.id.toString,
            "run_id" -> run,
            "operator" -> "0",
            "worker" -> w.worker.toString,
            "executor" -> "driver"
          ) -> (w.bins.toLong, w.keys, w.bytes)
        }
        .toMap
      assert(expected.size == 5)
      assert(values("worker_bins") == expected.map { case (l, v) => l -> v._1 })
      assert(values("worker_keys") == expected.map { case (l, v) => l -> v._2 })
      assert(values("worker_bytes") == expected.map { case (l, v) => l -> v._3 })
      val migrations = TableRows.migrations(driver)
      assert(total("bins_moved") - movedBefore == migrations.map(_.binsIn).sum)
      assert(values("executor_bytes").keySet == Set(Map("executor" -> "driver")))
      val shown = dropwizard
      assert(shown(s"${Plugin}_workers_Value") == "5")
      assert(shown(s"${Plugin}_bins_Value") == "1024")
      assert(shown(s"${Plugin}_plans_done_Count").toDouble == 1)
      assert(shown(s"${Plugin}_waitMs_Count").toDouble >= migrations.size)
      assert(shown(s"${Plugin}_executors_reporting_Value") == "1")
      for (metric <- ApplicationMetrics.all)
        assert(shown.keys.exists(_.startsWith(s"${Plugin}_${metric.name.replace('.', '_')}_")))
    }
    running.stop()
    eventually(timeout(30.seconds))(assert(values("worker_bins").isEmpty))
    assert(total("plans_done") == 1, "counters are of the application's life")
    assert(dropwizard(s"${Plugin}_queries_binned_Value") == "0")
  }

  test("A plan is shown while it has steps left, and none of its bins has a label.") {
    val source = new Source
    val running = start(source.stream.groupBy("k").count(), "update")
    source.feed()
    running.query.processAllAvailable()
    MegaphoneApi.rescale(running.query.runId.toString, 5, "fluid", "direct", -1)
    val moves = TableRows.plans(driverOf(running)).head.moves
    assert(values("plan_moves").values.toSeq == Seq(moves.toLong))
    assert(values("plan_moves_done").values.toSeq == Seq(0L))
    source.feed()
    running.query.processAllAvailable()
    source.feed()
    running.query.processAllAvailable()
    val done = TableRows.plans(driverOf(running)).head.movesDone
    assert(done > 0 && values("plan_moves_done").values.toSeq == Seq(done.toLong))
    assert(dropwizard(s"${Plugin}_plans_open_Value") == "1")
    assert(page.map(_.samples.size).sum < 100)
    running.stop()
  }

  test("The end of a plan is counted once: by several threads, by the query's end, not again.") {
    val counted = observing(identity)
    // Told of the ends of runs only, as if the last batch's report were lost in the stop.
    val late = observing(metrics =>
      new Observer {
        override def began(query: QueryDriver): Unit = metrics.began(query)
        override def changed(query: QueryDriver): Unit = ()
        override def arrived(query: QueryDriver, commit: Committed): Unit = ()
        override def ended(query: QueryDriver, error: Option[String]): Unit =
          metrics.ended(query, error)
      }
    )
    val hammered = new MetricRegistry
    val metrics = new DriverMetrics(application, hammered)
    application.observe(metrics)

    val source = new Source
    val checkpoint = folder("checkpoint").toString
    def run(body: Running => Unit): Unit = {
      val running = start(source.stream.groupBy("k").count(), "update", checkpoint)
      source.feed()
      running.query.processAllAvailable()
      val driver = driverOf(running)
      val isOver = new AtomicBoolean
      val threads = Vector.fill(3)(new Thread(() => while (!isOver.get) metrics.changed(driver)))
      threads.foreach(_.start())
      try { body(running); running.stop() }
      finally { isOver.set(true); threads.foreach(_.join()) }
    }
    def are(done: Long, cancelled: Long): Unit = eventually(timeout(30.seconds)) {
      for (registry <- Seq(counted, late, hammered)) {
        assert(count(registry, "plans.done") == done)
        assert(count(registry, "plans.cancelled") == cancelled)
        assert(count(registry, "plans.failed") == 0)
      }
    }
    run { running =>
      running.rescale(5, () => source.feed(), strategy = "all-at-once")
      val id = running.query.runId.toString
      MegaphoneApi.rescale(id, 2, "all-at-once", "direct", -1)
      MegaphoneApi.cancel(id, running.plans.last.get("id").asText)
    }
    are(done = 1, cancelled = 1)
    run { running =>
      MegaphoneApi.rescale(running.query.runId.toString, 2, "all-at-once", "direct", -1)
    }
    run { running => // goes on with the plan of the run before
      while (running.plans.last.get("status").asText != "done") {
        source.feed()
        running.query.processAllAvailable()
      }
    }
    run(_ => ())
    are(done = 2, cancelled = 1)
    assert(count(counted, "bins.recovered") > 0, "each restart reads the files")
  }

  test("The page is behind Spark's own filters, and takes GET only.") {
    assert(asked("/metrics/megaphone/", user = "stranger").statusCode == 403)
    val answer = asked("/metrics/megaphone/")
    assert(answer.statusCode == 200)
    val kind = answer.headers.firstValue("Content-Type").get.replace(" ", "")
    assert(kind.toLowerCase == "text/plain;version=0.0.4;charset=utf-8")
    assert(asked("/metrics/megaphone/", method = "POST").statusCode == 405)
    assert(asked("/metrics/megaphone/", method = "TRACE").statusCode == 405)
  }

  test("What cannot be registered is told once, and costs the metrics only.") {
    val registry = new MetricRegistry
    registry.counter("workers")
    val told = logged(classOf[DriverMetrics])(DriverMetrics.install(application, registry))
    assert(told == Seq("The plugin's metrics could not be registered."))
  }

  test("A gauge that cannot be read is 0, and a page that cannot be made is an error.") {
    val metrics = new DriverMetrics(application, new MetricRegistry)
    val told = logged(classOf[DriverMetrics]) {
      for (_ <- 1 to 2) assert(metrics.read(_ => throw new IllegalStateException) == 0)
    }
    assert(told.size == 1 && told.head.contains("is shown as 0"))
    val broken = new MetricsServlet(() => throw new IllegalStateException("secret"))
    Servlets.attach(SparkPrivate.ui(spark.sparkContext).get, "/metrics/broken", broken)
    val warned = logged(classOf[MetricsServlet]) {
      val answer = asked("/metrics/broken/")
      assert(answer.statusCode == 500 && !answer.body().contains("secret"))
    }
    assert(warned == Seq("The page of metrics could not be made."))
  }
}
