// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, BindReferences, BoundReference, Expression, GetStructField, LessThanOrEqual, Literal
}
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.python.streaming.{
  FlatMapGroupsInPandasWithStateExec, TransformWithStateInPySparkExec
}
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.{
  FlatMapGroupsWithStateExec, FlatMapGroupsWithStateExecBase
}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{
  StateStoreColumnFamilySchemaUtils, TransformWithStateExec
}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.timers.TimerStateUtils
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreId}
import org.apache.spark.sql.streaming.{GroupStateTimeout, OutputMode}
import org.apache.spark.sql.types.{StructType, TimestampType}

import io.megaphone.format.StoreId
import io.megaphone.runtime.DueScan

/** What Spark's operators look for when they look at all rows of their state.
  *
  * Each does so in every batch, to find what is due by the watermark or by the clock, and acts on
  * those rows alone. What it compares with is taken from the operator as Spark has planned it for
  * the batch. An operator, a mode or an expression that is not known here is looked for nothing:
  * all of the state is brought for its scan.
  */
private[spark] object Scans {
  private val Store = StateStoreId.DEFAULT_STORE_NAME
  private val Default = StateStore.DEFAULT_COL_FAMILY_NAME

  /** By store and scanned family. */
  def of(operators: Seq[StatefulOperator]): Map[(StoreId, String), DueScan] = (for {
    operator <- operators
    ((store, family), scan) <- scansOf(operator)
  } yield (StoreId(operator.stateInfo.get.operatorId, store), family) -> scan).toMap

  private def scansOf(operator: StatefulOperator): Seq[((String, String), DueScan)] = {
    def ofDefault(scan: Option[DueScan]) = scan.map((Store, Default) -> _).toSeq
    operator match {
      case s: StateStoreSaveExec
          if s.outputMode.exists(Set(OutputMode.Append(), OutputMode.Update())) &&
            s.stateFormatVersion <= AggregateFormatMax =>
        ofDefault(byKeys(s))
      case d: StreamingDeduplicateExec if hasOneTime(d.child) => ofDefault(byKeys(d))
      case d: StreamingDeduplicateWithinWatermarkExec =>
        ofDefault(d.eventTimeWatermarkForEviction.map { ms =>
          DueScan(Store, Default, isInKey = false, 1, 0, None, ms * MicrosPerMs)
        })
      case s: SessionWindowStateStoreSaveExec
          if s.outputMode.contains(OutputMode.Append()) && s.stateFormatVersion == 1 =>
        val row = s.child.output
        ofDefault(s.watermarkExpressionForEviction.flatMap(by(_, row).in(row.size)))
      case f: FlatMapGroupsWithStateExec =>
        ofDefault(timeOuts(f, f.timeoutConf, f.batchTimestampMs))
      case f: FlatMapGroupsInPandasWithStateExec =>
        ofDefault(timeOuts(f, f.timeoutConf, f.batchTimestampMs))
      case j: StreamingSymmetricHashJoinExec =>
        side(j, LeftSide, j.leftKeys, j.left.output, j.stateWatermarkPredicates.left) ++
          side(j, RightSide, j.rightKeys, j.right.output, j.stateWatermarkPredicates.right)
      case t: TransformWithStateExec =>
        indexes(t, t.batchTimestampMs, t.eventTimeWatermarkForEviction)
      case t: TransformWithStateInPySparkExec =>
        indexes(t, t.batchTimestampMs, t.eventTimeWatermarkForEviction)
      case _ => Seq.empty
    }
  }

  /** Spark 4.3 lets go by the first time among the keys, 4.2 by the first one of the input. */
  private def hasOneTime(input: SparkPlan) =
    input.output.count(_.metadata.contains(EventTimeWatermark.delayKey)) == 1

  private def byKeys(o: WatermarkSupport): Option[DueScan] =
    o.watermarkExpressionForEviction
      .filter(_ => o.watermarkPredicateForKeysForEviction.nonEmpty)
      .flatMap(by(_, o.keyExpressions).in(o.keyExpressions.size, isInKey = true))

  /** A side of a join looks at all keys, and lets go by the time in the key, or in a value, which
    * are in another store or family.
    */
  private def side(
      join: StreamingSymmetricHashJoinExec,
      side: JoinSide,
      keys: Seq[Expression],
      input: Seq[Attribute],
      predicate: Option[JoinStateWatermarkPredicate]
  ): Seq[((String, String), DueScan)] = {
    def placeOf(what: String): Option[(String, String)] = join.stateFormatVersion match {
      case 1 | 2 => Some((s"$side-$what", Default))
      case 3 => Some((Store, s"$side-$what"))
      case _ => None
    }
    // Behind the input's columns is one that says whether the row has met another.
    val columns = if (join.stateFormatVersion == 1) input.size else input.size + 1
    for {
      scanned <- placeOf("keyToNumValues").toSeq
      values <- placeOf("keyWithIndexToValue")
      opened = Some(values._1).filter(_ != scanned._1)
      scan <- predicate.flatMap {
        case p: JoinStateKeyWatermarkPredicate =>
          by(p.expr, Seq.empty).in(keys.size, isInKey = true, scanned)
        case p: JoinStateValueWatermarkPredicate => by(p.expr, input).in(columns, place = values)
      }
    } yield scanned -> scan.copy(opened = opened)
  }

  /** Timers and ends of values' lives are in families that are ordered by time. */
  private def indexes(
      operator: StatefulOperator,
      batchTimestampMs: Option[Long],
      watermarkMs: Option[Long]
  ): Seq[((String, String), DueScan)] = for {
    family <- SupportedOperators.familiesOf(Seq(operator))
    until <-
      if (TimerStateUtils.isTimerCFName(family))
        if (!TimerStateUtils.isTimerSecondaryIndexCF(family)) None
        else if (family.startsWith(TimerStateUtils.EVENT_TIMERS_STATE_NAME)) watermarkMs
        else batchTimestampMs
      else if (StateStoreColumnFamilySchemaUtils.isTtlColFamilyName(family)) batchTimestampMs
      else None
  } yield (Store, family) -> DueScan(Store, family, isInKey = true, 2, 0, None, until)

  /** Time-outs lie in the last column of the state. */
  private def timeOuts(
      operator: FlatMapGroupsWithStateExecBase,
      kind: GroupStateTimeout,
      batchTimestampMs: Option[Long]
  ): Option[DueScan] = {
    val before =
      if (kind == GroupStateTimeout.ProcessingTimeTimeout) batchTimestampMs
      else if (kind == GroupStateTimeout.EventTimeTimeout) operator.eventTimeWatermarkForEviction
      else None
    val state = operator.stateManager.stateSchema
    val columns = state.length
    before.filter(_ => state.fieldNames.lastOption.contains("timeoutTimestamp")).map { ms =>
      DueScan(Store, Default, isInKey = false, columns, columns - 1, None, ms - 1, Some(NoTimeOut))
    }
  }

  /** What an expression of Spark's compares: a time, or the end of a window, with a literal. */
  private def by(expression: Expression, row: Seq[Attribute]): Compared =
    BindReferences.bindReference(expression, row, allowFailures = true) match {
      case LessThanOrEqual(TimeIn(column, field), Literal(until: Long, _)) =>
        Compared(Some((column, field, until)))
      case _ => Compared(None)
    }

  private final case class Compared(what: Option[(Int, Option[Int], Long)]) {

    /** The scan for it, where the row has so many columns. */
    def in(
        columns: Int,
        isInKey: Boolean = false,
        place: (String, String) = (Store, Default)
    ): Option[DueScan] = what.collect {
      case (column, field, until) if column < columns =>
        DueScan(place._1, place._2, isInKey, columns, column, field, until)
    }
  }

  /** The ordinals of a column, and of a field of it, that has a time in one word. */
  private object TimeIn {
    def unapply(expression: Expression): Option[(Int, Option[Int])] = expression match {
      case BoundReference(column, TimestampType, _) => Some((column, None))
      case end @ GetStructField(BoundReference(column, _: StructType, _), field, _)
          if end.dataType == TimestampType =>
        Some((column, Some(field)))
      case _ => None
    }
  }

  private val MicrosPerMs = 1000L
  private val NoTimeOut = -1L
  private val AggregateFormatMax = 2
}
