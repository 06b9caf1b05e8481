// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** A running query, with or without state. */
final case class ActiveQuery(id: UUID, runId: UUID, name: Option[String]) {

  /** As a message names it: by what a caller would use. */
  override def toString: String = name.fold(s"id $id")(called => s"$called (id $id)")
}

/** The running queries of all sessions of the application.
  *
  * Private to Spark (4.2, 4.3): `SharedState.activeStreamingQueries`.
  *
  * Threads: any.
  */
object ActiveQueries {

  /** All of them. */
  def all: Vector[ActiveQuery] =
    active.map(q => ActiveQuery(q.id, q.runId, Option(q.name))).toVector

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

  private def find(runId: UUID): Option[StreamExecution] = active.find(_.runId == runId)

  /** Spark lists a query for a moment after it has ended. */
  private def active: Iterable[StreamExecution] =
    SparkSession.getDefaultSession
      .orElse(SparkSession.getActiveSession)
      .toSeq
      .flatMap(_.sharedState.activeStreamingQueries.values.asScala)
      .filter(_.isActive)
}
