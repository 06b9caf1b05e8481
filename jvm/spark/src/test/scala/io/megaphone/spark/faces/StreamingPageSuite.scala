// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces

import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}

import io.megaphone.spark.metrics.OperatorMetrics
import io.megaphone.spark.query.KeyedSession

/** Spark's own page of a query. */
class StreamingPageSuite extends KeyedSession {
  override protected def settings: Map[String, String] =
    Map(
      "spark.ui.enabled" -> "true",
      "spark.ui.port" -> "0",
      "spark.sql.streaming.ui.enabledCustomMetricList" -> "numRowsDroppedByWatermark"
    )

  test("The page draws the plugin's metrics, and the user's list stays.") {
    val source = new Source
    val running = start(source.stream.groupBy("k").count(), "update")
    for (_ <- 1 to 2) { source.feed(); running.query.processAllAvailable() }
    val address = s"${spark.sparkContext.uiWebUrl.get}/StreamingQuery/statistics/"
    val request = HttpRequest.newBuilder(URI.create(s"$address?id=${running.query.runId}")).build()
    val page =
      HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body()
    for (metric <- OperatorMetrics.all)
      assert(page.contains(s"Aggregated Custom Metric ${metric.name}"), metric.name)
    val listed = spark.sparkContext.getConf.get("spark.sql.streaming.ui.enabledCustomMetricList")
    assert(listed.split(',').head == "numRowsDroppedByWatermark")
    running.stop()
  }
}
