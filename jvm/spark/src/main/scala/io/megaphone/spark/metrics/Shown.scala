// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.metrics

import io.megaphone.view.{ExecutorRow, PlanRow, QueryRow, WorkerRow}

/** What metrics show of an application now: rows of the tables that users see. */
trait Shown {

  /** The running queries that have planned a batch with state. */
  def queries: Vector[ShownQuery]
  def executors: Vector[ExecutorRow]
}

object Shown {

  /** An application without a query. */
  val Nothing: Shown = new Shown {
    override def queries: Vector[ShownQuery] = Vector.empty
    override def executors: Vector[ExecutorRow] = Vector.empty
  }
}

/** What metrics show of a query. */
trait ShownQuery {
  def row: QueryRow
  def workers: Vector[WorkerRow]

  /** The plans that have steps left. */
  def openPlans: Vector[PlanRow]
}
