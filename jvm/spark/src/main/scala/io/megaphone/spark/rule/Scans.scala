// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import org.apache.spark.sql.catalyst.expressions.{
  Attribute, BindReferences, BoundReference, Expression, GetStructField, LessThanOrEqual, Literal
}
import org.apache.spark.sql.execution.python.streaming.FlatMapGroupsInPandasWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.{
  FlatMapGroupsWithStateExec, FlatMapGroupsWithStateExecBase
}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreId}
import org.apache.spark.sql.streaming.{GroupStateTimeout, OutputMode}
import org.apache.spark.sql.types.{StructType, TimestampNTZType, TimestampType}

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
  private val Default = StateStore.DEFAULT_COL_FAMILY_NAME
  private val NamedStoresFormat = 2 // of a join: later ones have families
  private val FamiliesFormat = 3

  /** By store and scanned family. */
  def of(operators: Seq[StatefulOperator]): Map[(StoreId, String), DueScan] = (for {
    operator <- operators
    (store, family, scan) <- scansOf(operator)
  } yield (StoreId(operator.stateInfo.get.operatorId, store), family) -> scan).toMap

  private def scansOf(operator: StatefulOperator): Seq[(String, String, DueScan)] =
    operator match {
      case s: StateStoreSaveExec
          if s.outputMode.exists(Set(OutputMode.Append(), OutputMode.Update())) =>
        inStore(byKeys(s))
      case d: StreamingDeduplicateExec => inStore(byKeys(d))
      case d: StreamingDeduplicateWithinWatermarkExec =>
        inStore(d.eventTimeWatermarkForEviction.map { ms =>
          DueScan(Default, isInKey = false, 1, 0, None, ms * MicrosPerMs)
        })
      case s: SessionWindowStateStoreSaveExec if s.outputMode.contains(OutputMode.Append()) =>
        val row = s.child.output
        inStore(
          s.watermarkExpressionForEviction
            .flatMap(by(_, row, row.size, isInKey = false, Default))
        )
      case f: FlatMapGroupsWithStateExec => inStore(timeOuts(f, f.timeoutConf, f.batchTimestampMs))
      case f: FlatMapGroupsInPandasWithStateExec =>
        inStore(timeOuts(f, f.timeoutConf, f.batchTimestampMs))
      case j: StreamingSymmetricHashJoinExec =>
        side(j, LeftSide, j.leftKeys, j.left.output, j.stateWatermarkPredicates.left) ++
          side(j, RightSide, j.rightKeys, j.right.output, j.stateWatermarkPredicates.right)
      case _ => Seq.empty
    }

  private def inStore(scan: Option[DueScan]) =
    scan.map((StateStoreId.DEFAULT_STORE_NAME, Default, _)).toSeq

  private def byKeys(o: WatermarkSupport): Option[DueScan] =
    o.watermarkExpressionForEviction
      .filter(_ => o.watermarkPredicateForKeysForEviction.nonEmpty)
      .flatMap(by(_, o.keyExpressions, o.keyExpressions.size, isInKey = true, Default))

  /** A side of a join looks at all keys of the one family, and lets go by the time in the key, or
    * in a value of the other. Two stores of one side are not compared: they are asked apart.
    */
  private def side(
      join: StreamingSymmetricHashJoinExec,
      side: JoinSide,
      keys: Seq[Expression],
      input: Seq[Attribute],
      predicate: Option[JoinStateWatermarkPredicate]
  ): Seq[(String, String, DueScan)] = {
    val scanned = s"$side-keyToNumValues"
    val isInFamilies = join.stateFormatVersion == FamiliesFormat
    val (store, family) =
      if (isInFamilies) (StateStoreId.DEFAULT_STORE_NAME, scanned) else (scanned, Default)
    val scan = predicate
      .filter(_ => isInFamilies || join.stateFormatVersion <= NamedStoresFormat)
      .flatMap {
        case p: JoinStateKeyWatermarkPredicate =>
          by(p.expr, Seq.empty, keys.size, isInKey = true, family)
        case p: JoinStateValueWatermarkPredicate if isInFamilies =>
          // Behind the input's columns is one that says whether the row has met another.
          by(p.expr, input, input.size + 1, isInKey = false, s"$side-keyWithIndexToValue")
        case _ => None
      }
    scan.map((store, family, _)).toSeq
  }

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
    val columns = operator.stateManager.stateSchema.length
    before.map { ms =>
      DueScan(Default, isInKey = false, columns, columns - 1, None, ms - 1, Some(NoTimeOut))
    }
  }

  /** What an expression of Spark's compares: a time, or the end of a window, with a literal. */
  private def by(
      expression: Expression,
      row: Seq[Attribute],
      columns: Int,
      isInKey: Boolean,
      timesIn: String
  ): Option[DueScan] =
    BindReferences.bindReference(expression, row, allowFailures = true) match {
      case LessThanOrEqual(TimeIn(column, field), Literal(until: Long, _)) if column < columns =>
        Some(DueScan(timesIn, isInKey, columns, column, field, until))
      case _ => None
    }

  /** The ordinals of a column, and of a field of it, that has a time in one word. */
  private object TimeIn {
    def unapply(expression: Expression): Option[(Int, Option[Int])] = expression match {
      case BoundReference(column, TimestampType | TimestampNTZType, _) => Some((column, None))
      case end @ GetStructField(BoundReference(column, _: StructType, _), field, _)
          if end.dataType == TimestampType || end.dataType == TimestampNTZType =>
        Some((column, Some(field)))
      case _ => None
    }
  }

  private val MicrosPerMs = 1000L
  private val NoTimeOut = -1L
}
