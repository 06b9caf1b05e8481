// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec

import io.megaphone.errors.UnroutableGroupException
import io.megaphone.plan.RoutingTable
import io.megaphone.spark.partitioning.RoutedPartitioning

/** The last look at the shuffles of a group, in the plan that Spark runs. Other rules and plugins
  * may have changed the plan after the routing rule.
  *
  * At first a table often lays bins as Spark's own hash does. So a shuffle that ignores the table
  * would give right answers until the first move; it is refused in the first batch.
  */
private[rule] object RoutingCheck {

  /** Throws UnroutableGroupException, with the name of what is in the way, if not every shuffle of
    * a routed group follows the table. `plan` has all shuffles of the group.
    */
  def apply(plan: SparkPlan, group: Long, table: RoutingTable): Unit =
    for {
      found <- Groups.find(plan)
      if found.operators.exists(_.stateInfo.exists(_.operatorId == group))
      stranger <- strangerIn(found, table)
    } throw new UnroutableGroupException(
      s"The state of ${found.operators.map(_.nodeName).distinct.mkString(", ")} cannot be moved, " +
        s"because another rule or plugin has changed the shuffle of its rows into $stranger; " +
        "switch that rule or plugin off for this query, or run the query on one of Spark's own " +
        "state store providers."
    )

  /** What decides on a row's partition instead of the table, if anything does. */
  private def strangerIn(group: PlanGroup, table: RoutingTable): Option[String] =
    if (group.exchanges.isEmpty) Some("a single partition")
    else group.exchanges.flatMap(strangerIn(_, table)).headOption

  private def strangerIn(exchange: ShuffleExchangeExec, table: RoutingTable): Option[String] =
    exchange.outputPartitioning match {
      case _ if exchange.getClass != classOf[ShuffleExchangeExec] => Some(exchange.getClass.getName)
      case routed: RoutedPartitioning if routed.table == table => None
      case other => Some(other.toString)
    }
}
