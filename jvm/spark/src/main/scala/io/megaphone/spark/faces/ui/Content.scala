// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.{Elem, NodeSeq}

import com.fasterxml.jackson.databind.node.ObjectNode

import io.megaphone.spark.faces.history.{Measure, PlanFacts, RunFacts}
import io.megaphone.spark.faces.json.Json

/** What each page contains. */
object Content {

  /** The part of a page that is replaced when the page is fetched again. */
  def page(content: NodeSeq): Elem =
    <div id="megaphone" class="megaphone">{Style.page}{Style.hatch}{content}</div>

  def query(run: RunFacts, measure: Measure, links: Links): NodeSeq =
    QueryContent(run, measure, links)

  def queries(runs: Vector[RunFacts], links: Links): NodeSeq = QueriesContent(runs, links)

  /** @param list
    *   leads to the list of all queries
    */
  def unknownRun(list: String): NodeSeq =
    <p>No such run of a query is known: it may have ended long ago. <a href={list}>All queries</a>
    </p>

  /** Runs as JSON: what the list of queries shows. */
  def json(runs: Vector[RunFacts]): String = {
    val rows = runs.map { run =>
      Json.node(
        "run_id" -> run.query.run,
        "query_id" -> run.query.id,
        "name" -> run.query.name,
        "state" -> Words.state(run),
        "provider" -> run.query.provider,
        "workers" -> run.workers.size,
        "executors" -> run.hosts,
        "keys" -> run.keys,
        "bytes" -> run.bytes,
        "last_batch" -> run.batches.lastOption.map(_.batch),
        "plans" -> run.plans.map(plan)
      )
    }
    Json.array(rows)
  }

  private def plan(plan: PlanFacts): ObjectNode = Json.node(
    "id" -> plan.id,
    "status" -> plan.status,
    "moves" -> plan.moves,
    "moves_done" -> plan.movesDone
  )
}
