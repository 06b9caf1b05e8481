// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperator, StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.megaphone.RunningQuery

import io.megaphone.errors.{UnroutableGroupException, UnsupportedQueryException}
import io.megaphone.runtime.Assignment
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.driver.{ApplicationDriver, PlannedBatch}

/** Routes every micro-batch of a query on our provider by its routing tables.
  *
  *   1. A plan without state, of a query that is not running (`explain`, a batch query), or on
  *      another provider is left alone; of the last, the log tells.
  *   1. What is not supported is refused with a sentence, never half-run.
  *   1. The driver is asked for the batch's tables; it may seal a step, and answers the same when
  *      asked again.
  *   1. Exchanges, state infos and checkpoint ids are rewritten, and the assignment of the batch
  *      put above each group.
  */
final class RoutingRule(session: SparkSession) extends Rule[SparkPlan] with Logging {

  override def apply(plan: SparkPlan): SparkPlan = {
    val operators = plan.collect { case o: StatefulOperator if o.stateInfo.isDefined => o }
    operators.headOption
      .map(_.stateInfo.get.queryRunId)
      .flatMap(RunningQuery.find(session, _)) match {
      case Some(execution)
          if session.sessionState.conf.stateStoreProviderClass == MegaphoneConf.ProviderClass =>
        val driver = ApplicationDriver.active.getOrElse(throw UnsupportedQueryException.noPlugin)
        execution match {
          case batch: MicroBatchExecution if batch.trigger.isInstanceOf[RealTimeTrigger] =>
            throw UnsupportedQueryException.realTime
          case batch: MicroBatchExecution =>
            route(plan, operators, new RunningQuery(batch), driver)
          case _ => throw UnsupportedQueryException.continuous
        }
      case Some(execution) =>
        ApplicationDriver.active.foreach(
          _.runsOn(execution.runId.toString, session.sessionState.conf.stateStoreProviderClass)
        )
        plan
      case None => plan
    }
  }

  private def route(
      plan: SparkPlan,
      operators: Seq[StatefulOperator],
      query: RunningQuery,
      driver: ApplicationDriver
  ): SparkPlan = {
    SupportedOperators.check(session, operators)
    val groups = Groups.find(plan)
    val batch = operators.head.stateInfo.get.storeVersion
    val queryDriver = driver.queryOf(query)
    val planned = queryDriver.plan(batch, groups.map(Groups.described), session)
    val rewritten = Groups.reroute(
      plan,
      groups,
      g => planned.tables(g.id).after,
      (o, g) => rewriteInfo(o, g, query, planned),
      (e, keys, g) => lookAhead(e, keys, g, planned),
      (node, g) => GroupExec(node, assignment(g, planned), planned.broadcasts(g.id), g.isRouted)
    )
    RoutingRule.checkPartitions(rewritten)
    rewritten
  }

  /** What the operators scan for matters only while bins of the group may be incomplete. */
  private def assignment(group: PlanGroup, planned: PlannedBatch): Assignment = {
    val of = planned.assignments(group.id)
    if (of.incomplete.isEmpty) of else of.copy(scans = Scans.of(group.operators))
  }

  /** A node above an exchange is needed only while bins of the group may be incomplete. */
  private def lookAhead(
      exchange: ShuffleExchangeExec,
      keys: Seq[Expression],
      group: PlanGroup,
      planned: PlannedBatch
  ): SparkPlan = {
    val incomplete = planned.assignments(group.id).incomplete
    val bins = planned.tables(group.id).after.bins
    if (incomplete.isEmpty) exchange else LookAheadExec(exchange, keys, group.id, bins, incomplete)
  }

  /** Pads the ids outside of the driver's monitor. Only one thread at a time is here for a query:
    * Spark computes a batch's physical plan once, as a lazy value that it forces on the stream's
    * thread before the batch runs. If `explain` of another thread is first, the stream's thread
    * waits for the same value, and it changes the ids only after the batch.
    */
  private def rewriteInfo(
      operator: StatefulOperator,
      group: PlanGroup,
      query: RunningQuery,
      planned: PlannedBatch
  ): SparkPlan = {
    val workers = planned.tables(group.id).after.workers
    if (!group.isRouted) operator
    else
      RoutingRule.withStateInfo(operator) { info =>
        val ids =
          if (info.stateStoreCkptIds.isDefined)
            query.padCheckpointIds(info.operatorId, workers).orElse(info.stateStoreCkptIds)
          else None
        info.copy(numPartitions = workers, stateStoreCkptIds = ids)
      }
  }
}

object RoutingRule {

  /** A copy of the operator with another state info: every stateful operator is a case class that
    * has it as an option among its arguments.
    */
  def withStateInfo(
      operator: StatefulOperator
  )(f: StatefulOperatorStateInfo => StatefulOperatorStateInfo): SparkPlan =
    operator.makeCopy(operator.productIterator.map {
      case Some(info: StatefulOperatorStateInfo) => Some(f(info))
      case other => other.asInstanceOf[AnyRef]
    }.toArray)

  /** A last look: each operator runs in as many tasks as it has workers. */
  def checkPartitions(plan: SparkPlan): Unit = plan.foreach {
    case o: StatefulOperator if o.stateInfo.isDefined =>
      Groups.childrenThatRun(o).foreach { child =>
        val tasks = child.outputPartitioning.numPartitions
        if (tasks != o.stateInfo.get.numPartitions && tasks != 1 && tasks != 0)
          throw new UnroutableGroupException(
            s"The state of ${o.nodeName} has ${o.stateInfo.get.numPartitions} workers, but the " +
              s"plan below it has $tasks partitions, which would read the wrong state; " +
              "run this query on one of Spark's own state store providers, and report its plan."
          )
      }
    case _ => ()
  }
}
