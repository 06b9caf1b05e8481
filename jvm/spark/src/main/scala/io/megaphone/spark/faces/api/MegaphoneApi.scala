// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.api

import io.megaphone.plan.{Plan, Strategy, TransferMode}
import io.megaphone.runtime.{Drain, Relocation}
import io.megaphone.spark.driver.{
  ApplicationDriver, Placements, PlanOptions, Plans, Queries, QueryDriver, TableRows
}
import io.megaphone.spark.faces.json.{Json, StepsJson}
import io.megaphone.spark.faces.ui.Picture
import io.megaphone.view.{
  BinRow, DrainRow, ExecutorRow, MigrationRow, PlanRow, QueryRow, RelocationRow, StepRow, WorkerRow
}

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

  /** Evens the load of the executors out, by whole workers. Returns the rows of the relocations
    * that have begun. A tolerance below 0 stands for the configured one.
    */
  def spread(runId: String, tolerance: Double): String = {
    val query = Queries.of(runId)
    begun(query, Placements.spread(query, Option.unless(tolerance < 0)(tolerance)))
  }

  /** Takes workers to executors, given as JSON: `{"0": "2"}`. Returns the rows of the relocations
    * that have begun.
    */
  def place(runId: String, workers: String, operator: Long): String = {
    val query = Queries.of(runId)
    val wanted = StepsJson.places(workers)
    begun(query, Placements.place(query, wanted, Option.when(operator >= 0)(operator)))
  }

  /** The table `relocations` of a query. */
  def relocations(runId: String): String =
    Json.rows(RelocationRow.table, TableRows.relocations(Queries.of(runId)))

  /** Ends relocations that no batch has taken, given as JSON: `[3, 4]`. */
  def cancelRelocations(runId: String, ids: String): Unit =
    Placements.cancel(Queries.of(runId), StepsJson.numbers(ids))

  /** Begins to empty an executor; returns its row of the table `drains`. A timeout of 0
    * milliseconds stands for none. If it is to be released, it is ended once it is empty.
    */
  def drain(executor: String, timeoutMs: Long, release: Boolean): String = {
    val timeout = Option.when(timeoutMs != 0)(timeoutMs)
    rowOf(Placements.drain(Queries.application, executor, timeout, release))
  }

  /** Lets an executor keep its workers; returns its row. */
  def undrain(executor: String): String =
    rowOf(Placements.undrain(Queries.application, executor))

  /** Asks the cluster manager for so many executors in all; an object with how many were `asked`
    * for and how many are `active`.
    */
  def requestExecutors(total: Int): String = {
    val found = Placements.request(Queries.application, total)
    Json.node("asked" -> found.asked, "active" -> found.active).toString
  }

  /** The table `drains` of the application. */
  def drains(): String = Json.rows(DrainRow.table, TableRows.drains(Queries.application))

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

  private def rowOf(drain: Drain): String = Json.row(DrainRow.table, DrainRow.of(drain)).toString

  private def begun(query: QueryDriver, some: Vector[Relocation]): String =
    Json.rows(RelocationRow.table, TableRows.relocations(query, some))

  private def rowOf(query: QueryDriver, plan: Plan): String =
    Json.row(PlanRow.table, TableRows.plan(query, plan)).toString

  private def optionsOf(strategy: String, mode: String, operator: Long): PlanOptions = PlanOptions(
    Option(strategy).map(Strategy.parse),
    Option(mode).map(TransferMode.parse),
    Option.when(operator >= 0)(operator)
  )
}
