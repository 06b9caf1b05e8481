// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.util.UUID

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.runtime.{
  MicroBatchExecution, MicroBatchExecutionContext, StreamExecution
}

/** The internals of a running query that the plugin reads and changes.
  *
  * Private to Spark (4.2, 4.3): `SharedState.activeStreamingQueries` and, by reflection, the field
  * `MicroBatchExecution.currentStateStoreCkptId`.
  */
final class RunningQuery(execution: MicroBatchExecution) {
  def id: UUID = execution.id
  def runId: UUID = execution.runId
  def name: Option[String] = Option(execution.name)
  def session: SparkSession = execution.sparkSession.asInstanceOf[SparkSession]

  /** The checkpoint's root folder. */
  def checkpointRoot: String = execution.resolvedCheckpointRoot

  def isActive: Boolean = execution.isActive

  /** What the query failed with; None if it runs or was stopped. */
  def error: Option[String] = execution.exception.map(_.getMessage)

  /** Whether this run itself wrote the offset log of its current batch, rather than found it. Spark
    * measures the writing if, and only if, this run constructed the batch. Checking the log from
    * here is not enough: the check comes before Spark's own, and another run may write in between.
    */
  def hasLoggedOffsets(batch: Long): Boolean = execution.getLatestExecutionContext() match {
    case context: MicroBatchExecutionContext =>
      context.batchId == batch && context.getDuration(RunningQuery.OffsetLogWriting).isDefined
    case _ => false
  }

  /** The newest batch in the commit log. */
  def latestCommittedBatch: Option[Long] = execution.commitLog.getLatestBatchId()

  /** Checkpoint ids by operator, partition and store, at the version that the next batch reads.
    * Empty under checkpoint format v1.
    */
  def checkpointIds: mutable.Map[Long, Array[Array[String]]] =
    RunningQuery.IdsField.get(execution).asInstanceOf[mutable.Map[Long, Array[Array[String]]]]

  /** The checkpoint ids at an earlier version; None if the commit log no longer has the batch that
    * made it.
    */
  def checkpointIdsAt(version: Long): Option[Map[Long, Array[Array[String]]]] =
    execution.commitLog.get(version - 1).map(_.stateUniqueIds.getOrElse(Map.empty))

  /** Lengthens an operator's array of checkpoint ids and returns it; None if there is none. Spark
    * indexes the array by partition, and a step may have added partitions since it was written.
    */
  def padCheckpointIds(operator: Long, length: Int): Option[Array[Array[String]]] =
    checkpointIds.get(operator).map { ids =>
      val padded = RunningQuery.padded(ids, length)
      if (padded ne ids) checkpointIds.put(operator, padded)
      padded
    }

  /** From now on, pads each array that Spark sets to `length`. Spark's reader indexes the arrays by
    * the partitions of the first batch, even if there are fewer now (H20). Called twice: the second
    * call does nothing.
    */
  def keepCheckpointIds(length: Int): Unit = checkpointIds match {
    case _: RunningQuery.PaddingMap => ()
    case ids =>
      RunningQuery.IdsField.set(execution, new RunningQuery.PaddingMap(length).addAll(ids))
  }
}

object RunningQuery {

  /** The name under which `MicroBatchExecution.constructNextBatch` reports how long writing the
    * offset log took.
    */
  private val OffsetLogWriting = "walCommit"

  private val IdsField = {
    // A private val of MicroBatchExecution since Spark 4.0. The compiler may prefix its name.
    val field = classOf[MicroBatchExecution].getDeclaredFields
      .find(_.getName.endsWith("currentStateStoreCkptId"))
      .getOrElse(
        throw new IllegalStateException(
          "Spark's MicroBatchExecution keeps no checkpoint ids any more: this jar does not fit " +
            "this Spark version."
        )
      )
    field.setAccessible(true)
    field
  }

  /** The running query of this run, in any session. None for plans that only look like a batch's
    * (`explain`, batch queries).
    */
  def find(session: SparkSession, runId: UUID): Option[StreamExecution] =
    session.sharedState.activeStreamingQueries.values.asScala.find(_.runId == runId)

  /** The plan that a running query made last. None if it has made none. */
  def lastPlan(session: SparkSession, runId: UUID): Option[SparkPlan] =
    find(session, runId).flatMap(query => Option(query.lastExecution)).map(_.executedPlan)

  private def padded(ids: Array[Array[String]], length: Int): Array[Array[String]] =
    if (ids.length >= length || ids.isEmpty) ids
    else ids ++ Array.fill(length - ids.length)(ids(0).clone())

  private final class PaddingMap(length: Int)
      extends mutable.AbstractMap[Long, Array[Array[String]]] {
    private val ids = mutable.HashMap.empty[Long, Array[Array[String]]]
    override def get(operator: Long): Option[Array[Array[String]]] = ids.get(operator)
    override def iterator: Iterator[(Long, Array[Array[String]])] = ids.iterator
    override def addOne(entry: (Long, Array[Array[String]])): this.type = {
      ids(entry._1) = padded(entry._2, length)
      this
    }
    override def subtractOne(operator: Long): this.type = { ids -= operator; this }
  }
}
