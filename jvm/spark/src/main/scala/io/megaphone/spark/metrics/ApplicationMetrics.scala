// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.metrics

import java.util.Locale

import io.megaphone.placement.MemberState
import io.megaphone.protocol.PlanStatus
import io.megaphone.runtime.{Arrivals, Loss, Relocation}

/** What counters count. */
sealed trait Happening

object Happening {

  /** A plan is over. */
  final case class PlanEnded(status: PlanStatus) extends Happening

  /** An executor was lost with workers of a query. */
  final case class Lost(loss: Loss) extends Happening

  /** A worker's way to another executor has ended. */
  final case class Relocated(relocation: Relocation) extends Happening

  /** A commit of one store of a worker to which state came, whole bins or what was newer. */
  final case class Arrived(arrivals: Arrivals) extends Happening
}

/** How a metric gets its value. */
sealed trait Reading

object Reading {

  /** It is as it is now. */
  final case class Gauge(of: Shown => Long) extends Reading

  /** It grows by what happens. */
  final case class Counter(of: PartialFunction[Happening, Long]) extends Reading

  /** It is how values spread, one of each thing that happens. */
  final case class Histogram(of: PartialFunction[Happening, Long]) extends Reading
}

/** A metric over all queries of an application.
  *
  * @param name
  *   as Dropwizard has it, below the plugin's own prefix
  * @param help
  *   one sentence
  */
final case class ApplicationMetric(name: String, unit: String, help: String, reading: Reading) {

  /** The family of the page with labels that shows it too, as Prometheus' users expect a name: it
    * tells of counters, and units are base units. None for gauges, which the page has by query,
    * worker and executor.
    */
  def family: Option[String] = {
    val words = name.replace('.', '_').replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT)
    val inBaseUnit = if (isInMs) s"${words.stripSuffix("_ms")}_seconds" else words
    val suffixed = reading match {
      case _: Reading.Gauge => None
      case _: Reading.Counter => Some(s"${inBaseUnit}_total")
      case _: Reading.Histogram => Some(inBaseUnit)
    }
    suffixed.map(LabelledMetrics.Prefix + _)
  }

  /** A value of this metric, in the unit of its family. */
  def inFamily(value: Long): BigDecimal = if (isInMs) BigDecimal(value, 3) else BigDecimal(value)

  private def isInMs = unit == "milliseconds"
}

/** The metrics of an application. Counters and histograms are of its whole life: what queries have
  * counted stays when they have ended.
  */
object ApplicationMetrics {
  import Happening._

  private def now(name: String, unit: String, help: String)(of: Shown => Long) =
    ApplicationMetric(name, unit, help, Reading.Gauge(of))

  private def ended(name: String, help: String, status: PlanStatus) =
    ApplicationMetric(
      name,
      "count",
      help,
      Reading.Counter { case PlanEnded(`status`) => 1L }
    )

  private def counted(name: String, help: String)(of: PartialFunction[Happening, Long]) =
    ApplicationMetric(name, "count", help, Reading.Counter(of))

  private def came(name: String, unit: String, help: String)(of: Arrivals => Long) =
    ApplicationMetric(name, unit, help, Reading.Counter { case Arrived(a) => of(a) })

  val all: Vector[ApplicationMetric] = Vector(
    now("queries.binned", "count", "Running queries that have their state in bins.")(
      _.queries.size.toLong
    ),
    now("workers", "count", "Workers of these queries.")(_.queries.map(_.row.workers.toLong).sum),
    now("bins", "count", "Bins of these queries.")(_.queries.map(_.row.bins.toLong).sum),
    now("keys", "count", "Live keys in all stores of these queries.")(
      _.queries.map(_.row.keys).sum
    ),
    now("bytes", "bytes", "Bytes of the live records in these stores.")(
      _.queries.map(_.row.bytes).sum
    ),
    now("bytesOnDisk", "bytes", "Bytes of state on local disks, beyond the memory budget.")(
      _.executors.map(_.bytesOnDisk).sum
    ),
    now("plans.open", "count", "Plans that have steps left.")(
      _.queries.map(_.openPlans.size.toLong).sum
    ),
    now("executors.reporting", "count", "Executors that have reported what they keep.")(
      _.executors.size.toLong
    ),
    now("executors.draining", "count", "Executors that are to be emptied, or get no more tasks.")(
      _.executors.count(_.state != MemberState.Active.name).toLong
    ),
    now("standbys", "count", "Executors that stand by for a worker with all of its state.")(
      _.queries.map(_.workers.map(_.standbys.toLong).sum).sum
    ),
    ended("plans.done", "Plans whose moves have all been made.", PlanStatus.Done),
    ended(
      "plans.failed",
      "Plans that are over, and some of whose moves could not be made.",
      PlanStatus.Failed
    ),
    ended("plans.cancelled", "Plans that users have cancelled.", PlanStatus.Cancelled),
    counted("executors.lost", "Executors that were lost with workers, of each query.") {
      case Lost(_) => 1L
    },
    counted("workers.lost", "Workers that ran on these executors.") { case Lost(loss) =>
      loss.workers.toLong
    },
    counted(
      "workers.promoted",
      "Of these workers those that went on where an executor stood by."
    ) { case Lost(loss) => loss.promoted.toLong },
    counted("workers.relocated", "Workers that have gone to another executor as a whole.") {
      case Relocated(r) if r.end.contains(Relocation.Done) => 1L
    },
    counted("relocations.failed", "Workers that did not get to the executor they were to go to.") {
      case Relocated(r) if r.reason.isDefined => 1L
    },
    came("bins.moved", "count", "Bins that moved in from another worker, in each store.")(
      _.binsIn.toLong
    ),
    came(
      "bins.fromPeer",
      "count",
      "Bins that moved in from another executor, or from a replica that had been prepared."
    )(_.binsFromPeer.toLong),
    came(
      "bins.fromCheckpoint",
      "count",
      "Bins that moved in and were read from files of the checkpoint."
    )(_.binsFromCheckpoint.toLong),
    came(
      "bins.recovered",
      "count",
      "Bins that stayed with their worker and were read from files, as after a restart of the " +
        "query or the loss of an executor, in each store."
    )(_.binsRecovered.toLong),
    came(
      "subBins",
      "count",
      "Sub-bins of incomplete bins that batches needed and brought, in each store."
    )(_.subBins.toLong),
    came(
      "questions",
      "count",
      "Questions about these that other executors answered: those asked at once share a " +
        "round trip."
    )(_.questions.toLong),
    came(
      "bytes.fromPeer",
      "bytes",
      "Bytes received from other executors for workers' state, also before the batch."
    )(_.bytesFromPeer),
    came(
      "bytes.fromCheckpoint",
      "bytes",
      "Bytes read from files for workers' state, also before the batch."
    )(_.bytesFromCheckpoint),
    ApplicationMetric(
      "waitMs",
      "milliseconds",
      "How long tasks waited for bins, of each worker and store that waited or that bins came " +
        "into.",
      Reading.Histogram { case Arrived(a) if a.isAny || a.waitNanos > 0 => a.waitMs }
    )
  )
}
