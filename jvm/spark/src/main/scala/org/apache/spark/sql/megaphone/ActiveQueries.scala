// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** Running queries over all sessions of the application. */
object ActiveQueries {

  /** Whether a query of this run is running, of whatever kind. */
  def isActive(runId: UUID): Boolean = find(runId).nonEmpty

  /** Whether a query of this run is running and has not run a batch: it waits for data, or works on
    * its first.
    */
  def isStarting(runId: UUID): Boolean = find(runId).exists { query =>
    query.lastExecution == null || (query.status.isTriggerActive && !query.recentProgress.exists(
      _.durationMs.containsKey("addBatch")
    ))
  }

  /** Whether a query of this run is running, has not run a batch, and is about to: it does not wait
    * for data or for its trigger.
    */
  def isNearFirstBatch(runId: UUID): Boolean =
    isStarting(runId) && find(runId).exists(q => !q.status.message.startsWith("Waiting for"))

  /** Spark lists a query for a moment after it has ended: that one is not running. */
  private def find(runId: UUID): Option[StreamExecution] =
    SparkSession.getDefaultSession
      .orElse(SparkSession.getActiveSession)
      .flatMap(
        _.sharedState.activeStreamingQueries.values.asScala
          .find(q => q.runId == runId && q.isActive)
      )
}
