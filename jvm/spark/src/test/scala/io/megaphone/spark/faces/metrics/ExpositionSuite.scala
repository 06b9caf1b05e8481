// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.placement.Seat
import io.megaphone.runtime.{Loss, Relocation}
import io.megaphone.spark.faces.metrics.Exposition.{Family, Sample}
import io.megaphone.spark.metrics.{
  ApplicationMetrics, Happening, LabelledMetric, LabelledMetrics, Reading, Shown, ShownQuery
}
import io.megaphone.view.{ExecutorRow, PlanRow, QueryRow, WorkerRow}

/** The text format, and what stands in it. */
class ExpositionSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 500, sizeRange = 8)

  private val nasty = Gen.oneOf('\\', '"', '\n', '\r', '{', '}', ',', '=', 'n', ' ', '\u2028', 'ö')
  private val text = Gen.stringOf(Gen.frequency(3 -> nasty, 1 -> Gen.asciiChar))
  private val name = Gen.resize(8, Gen.identifier)

  private val samples = for {
    names <- Gen.listOf(name).map(_.distinct.toVector)
    values <- Gen.listOfN(names.size, text)
    value <- Gen.long
    scale <- Gen.choose(0, 3)
  } yield Sample(names.zip(values), BigDecimal(value, scale))

  private val families = Gen
    .listOf(for {
      name <- name
      kind <- Gen.oneOf("gauge", "counter")
      help <- text
      all <- Gen.listOf(samples)
    } yield Family(name, kind, help, all.toVector))
    .map(_.distinctBy(_.name).toVector)

  test("Whatever stands in labels and helps, the page is read as it was meant.") {
    forAll(families)(all => assert(ParsedPage.of(Exposition.text(all)) == all))
  }

  test("The page is the one that Prometheus' documentation describes.") {
    val value = "C:\\DIR\\FILE.TXT\nsays \"no\""
    val page = Exposition.text(
      Vector(
        Family("a", "gauge", "A \"help\" of\ntwo lines.", Vector(Sample(Vector("l" -> value), 1))),
        Family("w", "summary", "W.", Vector(Sample(Vector.empty, BigDecimal(5020, 3), "_sum")))
      )
    )
    assert(page == """# HELP a A "help" of\ntwo lines.
                     |# TYPE a gauge
                     |a{l="C:\\DIR\\FILE.TXT\nsays \"no\""} 1
                     |# HELP w W.
                     |# TYPE w summary
                     |w_sum 5.020
                     |""".stripMargin)
  }

  private object Two extends Shown {
    private def query(id: String, named: Option[String], counts: Int): ShownQuery =
      new ShownQuery {
        override val row: QueryRow =
          QueryRow(id, s"run of $id", named, 1, counts, 64, 10, 100, Some(3), None)
        override val workers: Vector[WorkerRow] = Vector.tabulate(counts)(i =>
          WorkerRow(0, i, Option.when(i == 0)("driver"), 64 / counts, 5, 50, Some(3), 0, 0, 0, 0)
        )
        override val openPlans: Vector[PlanRow] = Vector.empty
      }
    override val queries: Vector[ShownQuery] =
      Vector(query("q", Some("say \"hi\""), 2), query("r", None, 1))
    override val executors: Vector[ExecutorRow] =
      Vector(ExecutorRow("driver", "host", "active", 1, 3, 50, 4, 3, 0, 0, 0, 200, 7, 1000))
  }

  private def samplesOf(name: String) = LabelledMetrics.all
    .find(_.name == s"spark_megaphone_$name")
    .get
    .samples(Two)

  test("Each worker, query and executor has a row; an unknown executor is no label.") {
    val q = Vector("query" -> "say \"hi\"", "run_id" -> "run of q")
    val r = Vector("query" -> "r", "run_id" -> "run of r") // by its id, if it has no name
    val of0 = Vector("operator" -> "0")
    assert(
      samplesOf("worker_bins") == Vector(
        (q ++ of0 ++ Vector("worker" -> "0", "executor" -> "driver"), 32L),
        (q ++ of0 ++ Vector("worker" -> "1"), 32L),
        (r ++ of0 ++ Vector("worker" -> "0", "executor" -> "driver"), 64L)
      )
    )
    assert(samplesOf("plan_moves") == Vector((q, 0L), (r, 0L)), "also of a query without a plan")
    assert(samplesOf("executor_budget_bytes") == Vector((Vector("executor" -> "driver"), 1000L)))
  }

  test("A loss counts its workers and those that were stood by for, a way how it ended.") {
    def counted(what: Happening): Map[String, Long] = ApplicationMetrics.all.flatMap { metric =>
      metric.reading match {
        case Reading.Counter(of) => of.lift(what).map(metric.name -> _)
        case _ => None
      }
    }.toMap
    val loss = Happening.Lost(Loss("3", 7, workers = 5, promoted = 4))
    assert(
      counted(loss) ==
        Map("executors.lost" -> 1L, "workers.lost" -> 5L, "workers.promoted" -> 4L)
    )
    val way = Relocation(0, Seat(0, 1), "a", "b", Relocation.Spread, 3)
    def ended(end: Relocation.End) = counted(Happening.Relocated(way.copy(end = Some(end))))
    assert(ended(Relocation.Done) == Map("workers.relocated" -> 1L))
    assert(ended(Relocation.Failed("no room")) == Map("relocations.failed" -> 1L))
    assert(counted(Happening.Relocated(way.cancelled)).isEmpty)
  }

  test("The names are those that dashboards know.") {
    val labelled = Vector(
      "worker_bins",
      "worker_keys",
      "worker_bytes",
      "worker_standbys",
      "worker_bins_incomplete",
      "worker_bytes_to_come",
      "plan_moves",
      "plan_moves_done",
      "executor_workers",
      "executor_live_bytes",
      "executor_bytes",
      "executor_budget_bytes"
    )
    val counted = Vector(
      "plans_done_total",
      "plans_failed_total",
      "plans_cancelled_total",
      "executors_lost_total",
      "workers_lost_total",
      "workers_promoted_total",
      "workers_relocated_total",
      "relocations_failed_total",
      "bins_moved_total",
      "bins_from_peer_total",
      "bins_from_checkpoint_total",
      "bins_recovered_total",
      "sub_bins_total",
      "questions_total",
      "bytes_from_peer_total",
      "bytes_from_checkpoint_total",
      "wait_seconds"
    )
    assert(LabelledMetrics.all.map(_.name) == labelled.map("spark_megaphone_" + _))
    val families = ApplicationMetrics.all.flatMap(_.family)
    assert(families == counted.map("spark_megaphone_" + _))
    def labelsOf[A](metric: LabelledMetric[A]) = metric.labels.map(_.name)
    val labels = LabelledMetrics.all.flatMap(labelsOf(_)).toSet
    assert(labels == Set("query", "run_id", "operator", "worker", "executor"))
  }
}
