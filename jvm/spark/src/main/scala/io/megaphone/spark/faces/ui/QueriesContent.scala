// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.NodeSeq

import io.megaphone.spark.faces.history.RunFacts

/** The list of the application's queries: running ones first, then those that ended last. */
object QueriesContent {
  def apply(runs: Vector[RunFacts], links: Links): NodeSeq =
    if (runs.isEmpty)
      <p>No query with state has planned a batch yet.</p>
    else
      Table[RunFacts](
        Column(
          "Query",
          isNumber = false,
          r =>
            <a href={links.to(s"/megaphone/query/?run=${r.query.run}")}>{r.query.title}</a> ++
              <div class="small sub">{r.query.id}</div>
        ),
        Column.text("Run", _.query.run),
        Column.text("State", Words.state),
        Column.number("Workers", r => if (isElsewhere(r)) "" else r.workers.size.toString),
        Column.number("Executors", r => if (isElsewhere(r)) "" else r.hosts.size.toString),
        Column.number("Keys", r => if (isElsewhere(r)) "" else Numbers.exact(r.keys)),
        Column.number("Bytes", r => if (isElsewhere(r)) "" else Numbers.bytes(r.bytes)),
        Column.text("Open plan", openPlan),
        Column.text(
          "Last step",
          _.plans.flatMap(_.batches).maxOption.fold("")(batch => s"batch $batch")
        ),
        Column.text("", _.query.provider.fold("")(Words.elsewhere))
      )(sorted(runs))

  private def isElsewhere(run: RunFacts): Boolean = run.query.provider.isDefined

  private def openPlan(run: RunFacts): String =
    run.openPlan.filter(_ => run.end.isEmpty).fold("") { p =>
      s"${p.id}: ${Numbers.exact(p.movesDone.toLong)} of ${Words.plan(p)}"
    }

  private def sorted(runs: Vector[RunFacts]): Vector[RunFacts] = {
    val (running, ended) = runs.partition(_.end.isEmpty)
    running.sortBy(-_.query.startedMs) ++ ended.sortBy(-_.end.get.timeMs)
  }
}
