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

/** The stateful operators that run on bins. A query with any other is refused when it starts. */
object SupportedOperators {

  /** The newest state format of a join that has named stores for each side. Later formats have
    * column families.
    */
  private val NamedStoresFormat = 2

  /** Throws UnsupportedQueryException if an operator or a setting is not supported. */
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

  /** Spark's short name of the operator that writes the state. Spark's partition key extractors are
    * chosen by it.
    */
  def nameOf(operators: Seq[StatefulOperator]): String = operators
    .collectFirst { case w: StateStoreWriter => w.shortName }
    .getOrElse(operators.head.nodeName)

  /** The names of an operator's stores. */
  def storesOf(operators: Seq[StatefulOperator]): Vector[String] =
    operators
      .collectFirst { case w: StateStoreWriter => w.stateStoreNames.toVector }
      .getOrElse(Vector("default"))

  /** The names of an operator's column families, without the default one, sorted. They come from
    * the schemas that Spark has written for the batch.
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
