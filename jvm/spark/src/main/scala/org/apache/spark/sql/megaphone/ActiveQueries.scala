// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** The running queries of all sessions of the application.
  *
  * Private to Spark (4.2, 4.3): `SharedState.activeStreamingQueries`.
  *
  * Threads: any.
  */
object ActiveQueries {

  /** Whether a query of this run is running, with or without state. */
  def isActive(runId: UUID): Boolean = find(runId).nonEmpty

  /** Whether a query of this run is running and has not completed a batch: it waits for data, or
    * works on its first batch.
    */
  def isStarting(runId: UUID): Boolean = find(runId).exists { query =>
    query.lastExecution == null || (query.status.isTriggerActive && !query.recentProgress.exists(
      _.durationMs.containsKey("addBatch")
    ))
  }

  /** Whether a query of this run is about to run its first batch: it waits neither for data nor for
    * its trigger.
    */
  def isNearFirstBatch(runId: UUID): Boolean =
    isStarting(runId) && find(runId).exists(q => !q.status.message.startsWith("Waiting for"))

  /** The active query of this run. Spark lists a query for a moment after it has ended. */
  private def find(runId: UUID): Option[StreamExecution] =
    SparkSession.getDefaultSession
      .orElse(SparkSession.getActiveSession)
      .flatMap(
        _.sharedState.activeStreamingQueries.values.asScala
          .find(q => q.runId == runId && q.isActive)
      )
}
