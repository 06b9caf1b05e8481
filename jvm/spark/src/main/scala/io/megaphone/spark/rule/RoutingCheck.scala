// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  BoundReference, Expression, GenericInternalRow, UnsafeProjection
}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.{ReusedExchangeExec, ShuffleExchangeExec}
import org.apache.spark.sql.types.IntegerType

import io.megaphone.errors.UnroutableGroupException
import io.megaphone.plan.{Bins, RoutingTable}
import io.megaphone.spark.partitioning.{RoutedPartitioning, WorkerOf}

/** The last look at the shuffles of a group, in the plan that Spark runs. Other rules and plugins
  * may have changed the plan after the routing rule.
  *
  * At first a table often lays bins as Spark's own hash does. So a shuffle that ignores the table
  * would give right answers until the first move; it is refused in the first batch.
  */
private[rule] object RoutingCheck {

  /** Throws UnroutableGroupException, with the name of what is in the way, if a shuffle that feeds
    * the group does not follow the table.
    */
  def apply(plan: SparkPlan, group: Long, table: RoutingTable): Unit = {
    val run = plan.transform { case reused: ReusedExchangeExec => reused.child }
    for {
      found <- Groups.find(run) if found.id == group
      exchange <- found.exchanges
      stranger <- strangerIn(exchange, table)
    } throw new UnroutableGroupException(
      s"The state of ${found.operators.map(_.nodeName).distinct.mkString(", ")} cannot be moved, " +
        s"because another rule or plugin has changed the shuffle of its rows into $stranger; " +
        "switch that rule or plugin off for this query, or run the query on one of Spark's own " +
        "state store providers."
    )
  }

  /** What decides on a row's partition instead of the table, if anything does. */
  private def strangerIn(exchange: ShuffleExchangeExec, table: RoutingTable): Option[String] =
    exchange.outputPartitioning match {
      case _ if exchange.getClass != classOf[ShuffleExchangeExec] => Some(exchange.getClass.getName)
      case routed: RoutedPartitioning if routed.table == table =>
        Option.unless(follows(routed.partitionIdExpression, table))(
          routed.partitionIdExpression.toString
        )
      case other => Some(other.toString)
    }

  /** Sends hashes through the expression, compiled as the shuffle compiles it. */
  private def follows(partitionId: Expression, table: RoutingTable): Boolean = partitionId match {
    case worker: WorkerOf =>
      val hash = BoundReference(0, IntegerType, nullable = false)
      val route = UnsafeProjection.create(worker.copy(child = hash))
      Hashes.forall { h =>
        val row: InternalRow = new GenericInternalRow(Array[Any](h))
        route(row).getInt(0) == table.workerOf(Bins.of(h, table.bins))
      }
    case _ => false
  }

  private val Hashes = Seq(0, 1, -1, 42, 1 << 20, Int.MinValue, Int.MaxValue)
}
