// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import org.apache.spark.sql.execution.streaming.state._

import io.megaphone.spark.metrics.OperatorMetrics

/** The page generated from the metrics of `io.megaphone.spark.metrics`. */
object MetricsReference {

  /** The text of `docs/reference/metrics.md`. */
  def markdown: String = {
    val snapshots = OperatorMetrics.SnapshotLastUploaded.metricPrefix
    val rows =
      OperatorMetrics.all.map(m => Vector(s"`${m.name}`", unit(m), s"${m.desc.capitalize}."))
    s"""# Metrics
       |
       |Each stateful operator has these metrics for each batch, summed over its workers and stores.
       |They are in `query.lastProgress["stateOperators"][i]["customMetrics"]`, at the operator's
       |node in the SQL tab, and in the Spark UI on the page of a query under Structured Streaming:
       |the plugin adds them to `spark.sql.streaming.ui.enabledCustomMetricList`. This page is
       |generated from the code by `io.megaphone.spark.conf.Reference`.
       |
       |""".stripMargin +
      Reference.table(Vector("metric", "unit", "meaning"), rows.toVector) +
      s"""
         |Spark adds `$snapshots` for a few workers and stores:
         |the newest version that a recovery can read quickly. Here that is every committed version.
         |
         |If no bin moved in and no worker was recovered, the first five are 0. How long each worker
         |waited, and for how many bins, is in the table [`migrations`](tables.md#migrations).
         |""".stripMargin
  }

  private def unit(metric: StateStoreCustomMetric): String = metric match {
    case _: StateStoreCustomSizeMetric => "bytes"
    case _: StateStoreCustomTimingMetric => "milliseconds"
    case _ => "count"
  }
}
