// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import io.megaphone.spark.driver.{ApplicationDriver, QueryDriver, TableRows}
import io.megaphone.spark.metrics.{Shown, ShownQuery}
import io.megaphone.view.{ExecutorRow, PlanRow, QueryRow, WorkerRow}

/** What an application shows now. Each part is made when it is first asked for, because most
  * metrics ask for one.
  */
private[metrics] final class ShownNow(application: ApplicationDriver) extends Shown {
  override lazy val queries: Vector[ShownQuery] = application.planned.map(new ShownQueryNow(_))
  override lazy val executors: Vector[ExecutorRow] = TableRows.executors(application)
}

private final class ShownQueryNow(query: QueryDriver) extends ShownQuery {
  override lazy val row: QueryRow = TableRows.query(query)
  override lazy val workers: Vector[WorkerRow] = TableRows.workers(query)
  override lazy val openPlans: Vector[PlanRow] =
    query.state.history.open.map(TableRows.plan(query, _))
}
