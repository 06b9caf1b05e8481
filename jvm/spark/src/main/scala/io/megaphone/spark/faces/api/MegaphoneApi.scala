// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.api

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import io.megaphone.plan.{Move, Plan, Strategy, TransferMode}
import io.megaphone.spark.driver.{PlanOptions, Plans, Queries, QueryDriver, StepByHand}
import io.megaphone.view.{BinRow, ExecutorRow, MigrationRow, PlanRow, QueryRow, StepRow, WorkerRow}

/** The interface for other languages: plain arguments in, JSON out. The Python package calls it.
  *
  * A query is named by its run id. If it is about to plan its first batch, the call waits for that.
  * A strategy or a mode of null stands for the configured one, and an operator of -1 for all
  * operators of the query. Every error is a MegaphoneError, which has a `condition`; a plan that is
  * refused has changed nothing. The tables are those of `io.megaphone.view`.
  *
  * Threads: any.
  */
object MegaphoneApi {

  /** The version of this jar. */
  def version: String = Option(getClass.getPackage.getImplementationVersion).getOrElse("unknown")

  /** Submits a plan that spreads the state over `workers` workers; returns the plan as JSON. */
  def rescale(
      runId: String,
      workers: Int,
      strategy: String,
      mode: String,
      operator: Long
  ): String = {
    val query = Queries.of(runId)
    progress(query, Plans.rescale(query, workers, optionsOf(strategy, mode, operator)))
  }

  /** Submits a plan that makes these moves, given as JSON: `[[bin, worker], ...]`; returns the plan
    * as JSON.
    */
  def move(runId: String, moves: String, strategy: String, mode: String, operator: Long): String = {
    val query = Queries.of(runId)
    val asked = movesOf(Json.read(moves))
    progress(query, Plans.move(query, asked, optionsOf(strategy, mode, operator)))
  }

  /** Submits steps made by hand, given as JSON:
    * `[{"moves": [[bin, worker], ...], "workers": 3}, ...]`. With 0 workers a step keeps their
    * number. A strategy cuts each step. Steps that change nothing are left out.
    */
  def submitSteps(
      runId: String,
      steps: String,
      strategy: String,
      mode: String,
      operator: Long
  ): String = {
    val query = Queries.of(runId)
    val asked = Json.read(steps).asScala.map(stepOf).toVector
    progress(query, Plans.submit(query, asked, optionsOf(strategy, mode, operator)))
  }

  /** Cancels a plan; nothing happens if it has ended. */
  def cancel(runId: String, planId: String): Unit = Plans.cancel(Queries.of(runId), planId)

  /** A row of the table `plans`, with one more field, `planned_batch`: the newest batch of the
    * query that was planned.
    */
  def plan(runId: String, planId: String): String = {
    val query = Queries.of(runId)
    progress(query, Plans.find(query.state, planId))
  }

  /** The table `plans` of a query. */
  def plans(runId: String): String = {
    val query = Queries.of(runId)
    Json.rows(PlanRow.table, PlanRow.of(query.state, query.query.latestCommittedBatch))
  }

  /** The table `steps` of a plan. */
  def steps(runId: String, planId: String): String = {
    val state = Queries.of(runId).state
    Json.rows(StepRow.table, StepRow.of(state, Plans.find(state, planId)))
  }

  /** The table `bins` of a query. */
  def bins(runId: String): String = {
    val query = Queries.of(runId)
    Json.rows(BinRow.table, BinRow.of(query.state, query.executorOf))
  }

  /** The table `workers` of a query. */
  def workers(runId: String): String = {
    val query = Queries.of(runId)
    Json.rows(
      WorkerRow.table,
      WorkerRow.of(query.state, query.executorOf, query.commits.newest)
    )
  }

  /** The table `migrations` of a query. */
  def migrations(runId: String): String =
    Json.rows(MigrationRow.table, MigrationRow.of(Queries.of(runId).commits.moves))

  /** The table `queries` of the application. */
  def queries(): String = Json.rows(
    QueryRow.table,
    for {
      query <- Queries.application.running
      state <- query.snapshot
    } yield QueryRow.of(query.query.id.toString, query.query.name, state)
  )

  /** The table `executors` of the application. */
  def executors(): String =
    Json.rows(ExecutorRow.table, ExecutorRow.of(Queries.application.heldByExecutor))

  private def progress(query: QueryDriver, plan: Plan): String = {
    val state = query.state
    val row = Json.row(PlanRow.table, PlanRow.of(state, plan, query.query.latestCommittedBatch))
    row.put("planned_batch", state.decision.fold[Any](null)(_.batch.number))
    Json.write(row)
  }

  private def optionsOf(strategy: String, mode: String, operator: Long): PlanOptions = PlanOptions(
    Option(strategy).map(Strategy.parse),
    Option(mode).map(TransferMode.parse),
    Option.when(operator >= 0)(operator)
  )

  private def stepOf(step: JsonNode): StepByHand = {
    val workers = whole(step.required("workers"))
    StepByHand(movesOf(step.required("moves")), Option.when(workers != 0)(workers))
  }

  private def movesOf(pairs: JsonNode): Vector[Move] =
    pairs.asScala.map(pair => Move(whole(pair.required(0)), whole(pair.required(1)))).toVector

  private def whole(node: JsonNode): Int =
    if (node.isInt) node.intValue
    else throw new IllegalArgumentException(s"A whole number is needed, not $node.")
}
