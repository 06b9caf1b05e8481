// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.api

import io.megaphone.plan.{Plan, Strategy, TransferMode}
import io.megaphone.spark.driver.{
  ApplicationDriver, PlanOptions, Plans, Queries, QueryDriver, TableRows
}
import io.megaphone.spark.faces.json.{Json, StepsJson}
import io.megaphone.spark.faces.ui.Picture
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
  def version: String = ApplicationDriver.version

  /** Submits a plan that spreads the state over `workers` workers; returns the plan as JSON. */
  def rescale(
      runId: String,
      workers: Int,
      strategy: String,
      mode: String,
      operator: Long
  ): String =
    submitted(runId)(Plans.rescale(_, workers, optionsOf(strategy, mode, operator)))

  /** Submits a plan that makes these moves, given as JSON: `{"17": 3}`. Returns it as JSON. */
  def move(runId: String, moves: String, strategy: String, mode: String, operator: Long): String =
    submitted(runId)(Plans.move(_, StepsJson.moves(moves), optionsOf(strategy, mode, operator)))

  /** Submits steps made by hand, given as JSON: see [[StepsJson]]. A strategy cuts each step. Steps
    * that change nothing are left out.
    */
  def submit(
      runId: String,
      steps: String,
      strategy: String,
      mode: String,
      operator: Long
  ): String =
    submitted(runId)(Plans.submit(_, StepsJson.read(steps), optionsOf(strategy, mode, operator)))

  /** Cancels a plan; nothing happens if it has ended. */
  def cancel(runId: String, planId: String): Unit = Queries.of(runId).cancel(planId)

  /** A row of the table `plans`. */
  def plan(runId: String, planId: String): String = {
    val query = Queries.of(runId)
    rowOf(query, Plans.find(query.state, planId))
  }

  /** The table `plans` of a query. */
  def plans(runId: String): String =
    Json.rows(PlanRow.table, TableRows.plans(Queries.of(runId)))

  /** The table `steps` of a plan. */
  def steps(runId: String, planId: String): String =
    Json.rows(StepRow.table, TableRows.steps(Queries.of(runId), planId))

  /** The table `bins` of a query. */
  def bins(runId: String): String = Json.rows(BinRow.table, TableRows.bins(Queries.of(runId)))

  /** The table `workers` of a query. */
  def workers(runId: String): String =
    Json.rows(WorkerRow.table, TableRows.workers(Queries.of(runId)))

  /** The table `migrations` of a query. */
  def migrations(runId: String): String =
    Json.rows(MigrationRow.table, TableRows.migrations(Queries.of(runId)))

  /** Where a query's state is, as a drawing: an object with the field `html`. */
  def picture(runId: String): String =
    Json.node("html" -> Picture.of(Queries.of(runId))).toString

  /** The table `queries` of the application. */
  def queries(): String = Json.rows(QueryRow.table, TableRows.queries(Queries.application))

  /** The table `executors` of the application. */
  def executors(): String = Json.rows(ExecutorRow.table, TableRows.executors(Queries.application))

  private def submitted(runId: String)(make: QueryDriver => Plans.Made): String = {
    val query = Queries.of(runId)
    rowOf(query, query.submit(make(query)))
  }

  private def rowOf(query: QueryDriver, plan: Plan): String =
    Json.row(PlanRow.table, TableRows.plan(query, plan)).toString

  private def optionsOf(strategy: String, mode: String, operator: Long): PlanOptions = PlanOptions(
    Option(strategy).map(Strategy.parse),
    Option(mode).map(TransferMode.parse),
    Option.when(operator >= 0)(operator)
  )
}
