// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.neutrality

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.megaphone.RunningQuery

import io.megaphone.plan.RoutingTable
import io.megaphone.runtime.{Assignment, Tables}
import io.megaphone.spark.rule.{GroupExec, Groups, PlanGroup, RoutingRule}

/** Routes every micro-batch with state by a table that is nothing like Spark's own partitioning,
  * whatever state store provider the query is on: for suites that must not notice.
  */
final class ScrambledRouting extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = extensions.injectColumnar {
    session =>
      new ColumnarRule {
        override def preColumnarTransitions: Rule[SparkPlan] =
          new ScrambledRule(session.asInstanceOf[SparkSession])
      }
  }
}

object ScrambledRouting {
  private val Bins = 1024

  /** How many groups were re-routed since the JVM started. */
  val reroutedCount = new AtomicLong()

  /** Checkpoints whose first batch was routed; state that was laid out before is left where it is,
    * as the plugin leaves the queries of another provider.
    */
  private[neutrality] val started = ConcurrentHashMap.newKeySet[String]()

  /** The same for all batches of a query, because Spark's own providers cannot move state. */
  def table(workers: Int): RoutingTable =
    RoutingTable.tabulate(Bins, workers, 7)(bin => (bin * 7 + 3) % workers)
}

private final class ScrambledRule(session: SparkSession) extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = {
    val operators = plan.collect { case o: StatefulOperator if o.stateInfo.isDefined => o }
    operators.headOption
      .map(_.stateInfo.get)
      .flatMap(info => RunningQuery.find(session, info.queryRunId).map(info -> _)) match {
      case Some((info, _: MicroBatchExecution))
          if ScrambledRouting.started.contains(info.checkpointLocation) || info.storeVersion == 0 =>
        ScrambledRouting.started.add(info.checkpointLocation)
        route(plan)
      case _ => plan
    }
  }

  private def route(plan: SparkPlan): SparkPlan = {
    val groups = Groups.find(plan)
    val tables = groups
      .map(g => g.id -> ScrambledRouting.table(g.operators.head.stateInfo.get.numPartitions))
      .toMap
    val routed = Groups.reroute(
      plan,
      groups,
      g => tables(g.id),
      (o, g) => rewrite(o, g, tables(g.id)),
      (exchange, _, _) => exchange,
      (node, g) => above(node, g, tables(g.id))
    )
    RoutingRule.checkPartitions(routed)
    ScrambledRouting.reroutedCount.addAndGet(groups.count(_.isRouted).toLong)
    routed
  }

  private def rewrite(
      operator: StatefulOperator,
      group: PlanGroup,
      table: RoutingTable
  ): SparkPlan =
    if (group.isRouted) RoutingRule.withStateInfo(operator)(_.copy(numPartitions = table.workers))
    else operator

  private def above(node: SparkPlan, group: PlanGroup, table: RoutingTable): SparkPlan = {
    val info = group.operators.head.stateInfo.get
    val facts = Assignment(
      info.queryRunId.toString,
      group.id,
      Vector.empty,
      info.storeVersion,
      Map.empty,
      Vector.empty,
      Map.empty,
      Vector.empty,
      table.toString
    )
    GroupExec(node, facts, session.sparkContext.broadcast(Tables(table, table)), group.isRouted)
  }
}
