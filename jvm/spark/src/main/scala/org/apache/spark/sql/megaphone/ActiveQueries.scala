// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution

/** Running queries over all sessions of the application. */
object ActiveQueries {

  /** Whether a query of this run is running, of whatever kind. */
  def isActive(runId: UUID): Boolean =
    SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession).exists(_.sharedState.activeStreamingQueries.values.asScala.exists(_.runId == runId))

  /** The newest batch in the offset log of a running micro-batch query: Some(None) where it has none yet, None where there is no such query. */
  def latestOffsetBatch(runId: UUID): Option[Option[Long]] =
    SparkSession.getDefaultSession.orElse(SparkSession.getActiveSession).flatMap { session =>
      session.sharedState.activeStreamingQueries.values.asScala.collectFirst { case m: MicroBatchExecution if m.runId == runId => new RunningQuery(m).latestOffsetBatch }
    }
}
