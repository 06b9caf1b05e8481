// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.python.streaming.{
  FlatMapGroupsInPandasWithStateExec, TransformWithStateInPySparkExec
}
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.FlatMapGroupsWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.internal.SQLConf

import io.megaphone.errors.UnsupportedQueryException

/** The stateful operators that run on bins; every other is refused when the query starts, never
  * half-run.
  */
object SupportedOperators {

  /** The newest state format of a join that keeps each side's stores by name, rather than in column
    * families.
    */
  private val NamedStoresFormat = 2

  def check(session: SparkSession, operators: Seq[StatefulOperator]): Unit = {
    operators.foreach {
      case _: StateStoreRestoreExec | _: StateStoreSaveExec | _: StreamingDeduplicateExec |
          _: StreamingDeduplicateWithinWatermarkExec | _: SessionWindowStateStoreRestoreExec |
          _: SessionWindowStateStoreSaveExec | _: FlatMapGroupsWithStateExec |
          _: FlatMapGroupsInPandasWithStateExec | _: StreamingGlobalLimitExec |
          _: StreamingSymmetricHashJoinExec | _: TransformWithStateExec |
          _: TransformWithStateInPySparkExec =>
        ()
      case other => throw UnsupportedQueryException.operator(other.nodeName)
    }
    if (session.sessionState.conf.getConf(SQLConf.STATE_STORE_UNLOAD_ON_COMMIT))
      throw UnsupportedQueryException.unloadOnCommit
  }

  /** The name by which Spark finds how an operator's state key leads to its partition key: that of
    * the operator that writes.
    */
  def nameOf(operators: Seq[StatefulOperator]): String = operators
    .collectFirst { case w: StateStoreWriter => w.shortName }
    .getOrElse(operators.head.nodeName)

  /** Names of an operator's stores. */
  def storesOf(operators: Seq[StatefulOperator]): Vector[String] =
    operators
      .collectFirst { case w: StateStoreWriter => w.stateStoreNames.toVector }
      .getOrElse(Vector("default"))

  /** Names of the column families that an operator has beside the default one, as Spark has written
    * them down for the batch.
    */
  def familiesOf(operators: Seq[StatefulOperator]): Vector[String] = {
    val names = operators
      .collectFirst {
        case join: StreamingSymmetricHashJoinExec if join.stateFormatVersion > NamedStoresFormat =>
          join.getColFamilySchemas(shouldBeNullable = true).keySet
        case o @ (_: TransformWithStateExec | _: TransformWithStateInPySparkExec) =>
          o.stateInfo.get.stateSchemaMetadata.get.broadcast.value.activeSchemas.keySet
            .map(_.colFamilyName)
      }
      .getOrElse(Set.empty[String])
    (names - StateStore.DEFAULT_COL_FAMILY_NAME).toVector.sorted
  }
}
