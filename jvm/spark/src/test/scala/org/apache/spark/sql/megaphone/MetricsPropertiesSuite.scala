// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkConf
import org.apache.spark.metrics.MetricsConfig
import org.scalatest.funsuite.AnyFunSuite

/** `conf/metrics.properties`, as Spark reads it. */
class MetricsPropertiesSuite extends AnyFunSuite {
  private val file = Path.of("../../../../conf/metrics.properties").toRealPath()

  /** What an instance of Spark (the driver, an executor, …) takes from the file. */
  private def instance(name: String): Map[String, String] = {
    val config = new MetricsConfig(new SparkConf(false).set("spark.metrics.conf", file.toString))
    config.initialize()
    config.getInstance(name).asScala.toMap
  }

  test("The driver has Prometheus' sink beside Spark's own, and executors have none.") {
    val added = instance("driver").removedAll(instance("executor").keys)
    assert(
      added == Map(
        "sink.prometheusServlet.class" -> "org.apache.spark.metrics.sink.PrometheusServlet",
        "sink.prometheusServlet.path" -> "/metrics/prometheus"
      )
    )
    assert(instance("executor").keySet.forall(_.startsWith("sink.servlet.")))
    Class.forName(added("sink.prometheusServlet.class"))
  }

  test("A comment explains each line.") {
    val lines = Files.readAllLines(file).asScala.toVector
    val settings = lines.zipWithIndex.filter { case (line, _) =>
      line.nonEmpty && !line.startsWith("#")
    }
    assert(settings.size == 2)
    for ((line, i) <- settings) assert(i > 0 && lines(i - 1).startsWith("#"), line)
  }
}
