// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import org.apache.spark.sql.execution.streaming.state._

import io.megaphone.spark.metrics.{
  ApplicationMetric, ApplicationMetrics, LabelledMetric, LabelledMetrics, OperatorMetrics, Reading
}

/** The page generated from the metrics of `io.megaphone.spark.metrics`. */
object MetricsReference {

  /** The text of `docs/reference/metrics.md`. */
  def markdown: String = {
    val snapshots = OperatorMetrics.SnapshotLastUploaded.metricPrefix
    val ofOperators =
      OperatorMetrics.all.map(m => Vector(s"`${m.name}`", unit(m), s"${m.desc.capitalize}."))
    val ofApplication = ApplicationMetrics.all.map { m =>
      Vector(s"`${m.name}`", kind(m.reading), m.unit, m.help)
    }
    s"""# Metrics
       |
       |Of each operator in each batch, of the application, and with labels. How to scrape them, and
       |a board for Grafana, are in [operations](../operations.md#metrics-and-prometheus). This page
       |is generated from the code by `io.megaphone.spark.conf.Reference`.
       |
       |## Of an operator
       |
       |Each stateful operator has these metrics for each batch, summed over its workers and stores.
       |They are in `query.lastProgress["stateOperators"][i]["customMetrics"]`, at the operator's
       |node in the SQL tab, and in the Spark UI on the page of a query under Structured Streaming:
       |the plugin adds them to `spark.sql.streaming.ui.enabledCustomMetricList`.
       |
       |A stream-stream join has four stores in Spark's state formats 1 and 2. Spark hands on these
       |metrics of two of them: for each side, of the store that has the rows. The table
       |[`migrations`](tables.md#migrations) has all four.
       |
       |""".stripMargin +
      Reference.table(Vector("metric", "unit", "meaning"), ofOperators.toVector) +
      s"""
         |Spark adds `$snapshots` for a few workers and stores:
         |the newest version that a recovery can read quickly. Here that is every committed version.
         |
         |If no bin moved in, none is incomplete, and each executor had its worker's newest state,
         |the first six are 0.
         |How long each worker waited, and for how many bins, is in the table
         |[`migrations`](tables.md#migrations).
         |
         |## Of the application
         |
         |Spark's metrics system has these in the driver, for its sinks. It puts
         |`<namespace>.driver.plugin.io.megaphone.MegaphonePlugin.` before each name; the namespace
         |is `spark.metrics.namespace`, or else the application's id. Counters and the histogram are
         |of the application's life: they keep what ended queries have counted. A plan counts when
         |it is over, once; one that was over before the application began does not count.
         |
         |""".stripMargin +
      Reference.table(Vector("metric", "type", "unit", "meaning"), ofApplication) +
      s"""
         |## With labels
         |
         |The live UI shows these at `/metrics/megaphone/`, in Prometheus' text format. `query` is
         |the name of the query, or its id if it has none; `run_id` is Spark's id of the run;
         |`operator` is the group of operators, as in the table [`workers`](tables.md#workers). A
         |worker that has not run yet has no label `executor`. Nothing has a label for a bin or a
         |plan: the tables [`bins`](tables.md#bins) and [`plans`](tables.md#plans) show each. The
         |counters are those above, and have no labels.
         |
         |""".stripMargin +
      Reference.table(
        Vector("metric", "type", "labels", "unit", "meaning"),
        LabelledMetrics.all.map(row(_)) ++ ApplicationMetrics.all.flatMap(row)
      )
  }

  private def row[A](m: LabelledMetric[A]): Vector[String] = Vector(
    s"`${m.name}`",
    "gauge",
    m.labels.map(l => s"`${l.name}`").mkString(", "),
    m.unit,
    m.help
  )

  private def row(m: ApplicationMetric): Option[Vector[String]] = m.family.map { family =>
    m.reading match {
      case _: Reading.Histogram =>
        val names = s"`${family}_sum`, `${family}_count`"
        Vector(names, "summary", "", "seconds, count", s"Sum and number of `${m.name}`.")
      case reading => Vector(s"`$family`", kind(reading), "", m.unit, s"As `${m.name}`.")
    }
  }

  private def kind(reading: Reading): String = reading match {
    case _: Reading.Gauge => "gauge"
    case _: Reading.Counter => "counter"
    case _: Reading.Histogram => "histogram"
  }

  private def unit(metric: StateStoreCustomMetric): String = metric match {
    case _: StateStoreCustomSizeMetric => "bytes"
    case _: StateStoreCustomTimingMetric => "milliseconds"
    case _ => "count"
  }
}
