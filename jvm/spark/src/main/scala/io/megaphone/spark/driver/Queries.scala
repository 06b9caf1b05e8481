// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.UUID

import org.apache.spark.sql.megaphone.ActiveQueries

import io.megaphone.errors.{PlanRefusedException, UnsupportedQueryException}

/** Finds the running queries of the application. Threads: any. */
object Queries {

  /** The driver of the application. Throws UnsupportedQueryException if it has no plugin. */
  def application: ApplicationDriver =
    ApplicationDriver.active.getOrElse(throw UnsupportedQueryException.noPlugin)

  /** The query of a run. One that is about to plan its first batch is waited for. Throws
    * PlanRefusedException, which says why there is none with state that could move.
    */
  def of(runId: String): QueryDriver = application.queryWithPlan(runId).getOrElse {
    val run = UUID.fromString(runId)
    if (!ActiveQueries.isActive(run)) throw PlanRefusedException.stopped(runId)
    if (ActiveQueries.isStarting(run)) throw PlanRefusedException.notStarted
    throw application
      .otherProviderOf(runId)
      .fold(PlanRefusedException.notBinned(runId))(PlanRefusedException.onOtherProvider(runId, _))
  }
}
