// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import io.megaphone.placement.Load
import io.megaphone.plan.Plan
import io.megaphone.runtime.Relocation
import io.megaphone.view.{
  BinRow, DrainRow, ExecutorRow, MigrationRow, PlanRow, QueryRow, RelocationRow, StepRow, WorkerRow
}

/** The rows of each table of `io.megaphone.view`, of a running query or of the application. Every
  * face shows these, so that all show the same.
  *
  * Rows are of the moment they are asked for. Throws PlanRefusedException if the query has planned
  * no batch with state.
  *
  * Threads: any.
  */
object TableRows {
  def bins(query: QueryDriver): Vector[BinRow] =
    BinRow.of(query.state, query.footprint.executorOf, query.commits)

  def workers(query: QueryDriver): Vector[WorkerRow] =
    WorkerRow.of(
      query.state,
      query.footprint.executorOf,
      query.commits.newest,
      query.footprint.standbysOf(_, _).size,
      query.footprint.loadOf(_, _).busyMs
    )

  def plans(query: QueryDriver): Vector[PlanRow] =
    PlanRow.of(query.state, query.query.latestCommittedBatch)

  def plan(query: QueryDriver, plan: Plan): PlanRow =
    PlanRow.of(query.state, plan, query.query.latestCommittedBatch)

  def steps(query: QueryDriver, planId: String): Vector[StepRow] =
    StepRow.of(query.state, Plans.find(query.state, planId))

  def steps(query: QueryDriver): Vector[StepRow] = {
    val state = query.state
    state.history.plans.valuesIterator.flatMap(p => StepRow.of(state, p.plan)).toVector
  }

  def migrations(query: QueryDriver): Vector[MigrationRow] = MigrationRow.of(query.commits.moves)

  def relocations(query: QueryDriver): Vector[RelocationRow] = {
    query.state // says so if there is none yet
    relocations(query, query.footprint.relocations)
  }

  def relocations(query: QueryDriver, some: Vector[Relocation]): Vector[RelocationRow] =
    some.map(relocation(query, _))

  def relocation(query: QueryDriver, one: Relocation): RelocationRow =
    RelocationRow.of(one, query.footprint.bytesOf, query.footprint.bytesReady)

  def query(query: QueryDriver): QueryRow =
    QueryRow.of(query.query.id.toString, query.query.name, query.state, query.commits.newest)

  /** The queries of an application that have planned a batch with state. */
  def queries(application: ApplicationDriver): Vector[QueryRow] =
    application.planned.map(query)

  def executors(application: ApplicationDriver): Vector[ExecutorRow] = {
    val footprints = application.planned.map(_.footprint)
    ExecutorRow.of(
      application.membership.held,
      Load.byExecutor(footprints.flatMap(_.placed)),
      footprints.flatMap(_.standbys).groupMapReduce(_._1)(_._2)(_ + _)
    )
  }

  def drains(application: ApplicationDriver): Vector[DrainRow] =
    application.membership.drainsNow.map(DrainRow.of)

  /** The drains that have not ended. */
  def drainsUnderWay(application: ApplicationDriver): Vector[DrainRow] =
    application.membership.drainsUnderWay.map(DrainRow.of)
}
