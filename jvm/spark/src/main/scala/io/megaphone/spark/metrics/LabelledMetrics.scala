// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.metrics

import io.megaphone.view.{ExecutorRow, WorkerRow}

/** A label of a row.
  *
  * @param of
  *   its value; a row that has none is shown without the label
  */
final case class Label[A](name: String, of: A => Option[String]) {

  /** The same label, of what has an `A` in it. */
  def on[B](inner: B => A): Label[B] = Label(name, b => of(inner(b)))
}

/** A family of gauges, with a value for each row.
  *
  * @param help
  *   one sentence
  */
final case class LabelledMetric[A](
    name: String,
    unit: String,
    help: String,
    labels: Vector[Label[A]],
    rows: Shown => Vector[A],
    value: A => Long
) {

  /** The labels and the value of each row. */
  def samples(shown: Shown): Vector[(Vector[(String, String)], Long)] =
    rows(shown).map(row => labels.flatMap(l => l.of(row).map(l.name -> _)) -> value(row))
}

/** The gauges that have labels, for systems such as Prometheus. None has a label for each bin or
  * plan: these are many, and come and go.
  */
object LabelledMetrics {

  /** What the name of each family begins with. */
  val Prefix = "spark_megaphone_"

  private type OfWorker = (ShownQuery, WorkerRow)

  private val queryLabels: Vector[Label[ShownQuery]] = Vector(
    Label("query", q => Some(q.row.name.getOrElse(q.row.queryId))),
    Label("run_id", q => Some(q.row.runId))
  )
  private val workerLabels: Vector[Label[OfWorker]] =
    queryLabels.map(_.on[OfWorker](_._1)) ++ Vector[Label[WorkerRow]](
      Label("operator", w => Some(w.operator.toString)),
      Label("worker", w => Some(w.worker.toString)),
      Label("executor", _.executor)
    ).map(_.on[OfWorker](_._2))
  private val executorLabels = Vector[Label[ExecutorRow]](Label("executor", e => Some(e.executor)))

  private def ofWorkers(name: String, unit: String, help: String)(value: WorkerRow => Long) =
    LabelledMetric[OfWorker](
      s"${Prefix}worker_$name",
      unit,
      help,
      workerLabels,
      shown => for (q <- shown.queries; w <- q.workers) yield q -> w,
      row => value(row._2)
    )

  private def ofQueries(name: String, unit: String, help: String)(value: ShownQuery => Long) =
    LabelledMetric[ShownQuery](s"$Prefix$name", unit, help, queryLabels, _.queries, value)

  private def ofExecutors(name: String, unit: String, help: String)(value: ExecutorRow => Long) =
    LabelledMetric[ExecutorRow](
      s"${Prefix}executor_$name",
      unit,
      help,
      executorLabels,
      _.executors,
      value
    )

  val all: Vector[LabelledMetric[_]] = Vector(
    ofWorkers("bins", "count", "Bins that the worker owns.")(_.bins.toLong),
    ofWorkers("keys", "count", "Live keys in all stores of the worker.")(_.keys),
    ofWorkers("bytes", "bytes", "Bytes of the live records of the worker, without indexes.")(
      _.bytes
    ),
    ofWorkers("standbys", "count", "Executors that stand by for the worker with all of its state.")(
      _.standbys.toLong
    ),
    ofWorkers(
      "bins_incomplete",
      "count",
      "Bins of the worker of which a step on demand has left something elsewhere, in each store."
    )(_.binsIncomplete.toLong),
    ofWorkers("bytes_to_come", "bytes", "About how many bytes of records are elsewhere of these.")(
      _.bytesToCome
    ),
    ofQueries("plan_moves", "count", "Moves of the query's plans that have steps left.")(
      _.openPlans.map(_.moves.toLong).sum
    ),
    ofQueries(
      "plan_moves_done",
      "count",
      "Moves of the query's plans that have steps left, which have taken effect."
    )(
      _.openPlans.map(_.movesDone.toLong).sum
    ),
    ofExecutors("workers", "count", "Workers that are placed on the executor.")(_.placed.toLong),
    ofExecutors("live_bytes", "bytes", "Bytes of the live records of these workers.")(_.liveBytes),
    ofExecutors("bytes", "bytes", "Heap that all states and replicas on the executor take.")(
      _.bytes
    ),
    ofExecutors("budget_bytes", "bytes", "Heap that states and replicas on the executor may take.")(
      _.budget
    )
  )
}
