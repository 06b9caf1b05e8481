// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import java.util.concurrent.atomic.LongAdder

import com.codahale.metrics.{Gauge, MetricRegistry}

import io.megaphone.spark.metrics.{ApplicationMetric, ApplicationMetrics, Happening, Reading, Shown}

/** The application's metrics in Dropwizard's registry, and what they have counted.
  *
  * Threads: any. Throws IllegalArgumentException when it is made if a name is taken.
  *
  * @param read
  *   reads a gauge; it does not throw, because Spark's pages show all metrics of the driver or none
  */
private[metrics] final class Registered(
    registry: MetricRegistry,
    read: (Shown => Long) => Long
) {
  import Registered._

  private val counts: Vector[Count] = ApplicationMetrics.all.flatMap(registered)

  def happened(what: Happening): Unit = counts.foreach(_.happened(what))

  /** The counters and histograms, as families of the page with labels. */
  def families: Vector[Exposition.Family] = counts.map(_.family)

  private def registered(metric: ApplicationMetric): Option[Count] = metric.reading match {
    case Reading.Gauge(of) =>
      val gauge: Gauge[Long] = () => read(of)
      registry.register(metric.name, gauge)
      None
    case Reading.Counter(of) =>
      val counter = registry.counter(metric.name)
      Some(new Count {
        override def happened(what: Happening): Unit = of.lift(what).foreach(counter.inc(_))
        override def family: Exposition.Family =
          familyOf(metric, "counter", Exposition.Sample(Vector.empty, counter.getCount))
      })
    case Reading.Histogram(of) =>
      val histogram = registry.histogram(metric.name)
      val sum = new LongAdder // Dropwizard keeps none
      Some(new Count {
        override def happened(what: Happening): Unit = of.lift(what).foreach { value =>
          histogram.update(value)
          sum.add(value)
        }
        override def family: Exposition.Family = familyOf(
          metric,
          "summary",
          Exposition.Sample(Vector.empty, metric.inFamily(sum.sum), "_sum"),
          Exposition.Sample(Vector.empty, histogram.getCount, "_count")
        )
      })
  }
}

private object Registered {

  /** A metric that counts. */
  private trait Count {
    def happened(what: Happening): Unit
    def family: Exposition.Family
  }

  private def familyOf(
      metric: ApplicationMetric,
      kind: String,
      samples: Exposition.Sample*
  ): Exposition.Family =
    Exposition.Family(metric.family.get, kind, metric.help, samples.toVector)
}
