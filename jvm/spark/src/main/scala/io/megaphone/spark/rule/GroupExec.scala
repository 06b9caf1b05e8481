// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import java.util.UUID

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase
import org.apache.spark.sql.megaphone.RunningQuery

import io.megaphone.runtime.{Assignment, Tables}

/** The node above a group: carries what the batch must agree on to the group's tasks.
  *
  * It adds nothing to the rows. Its RDD hands the assignment to the task before the operators below
  * open their stores, so they are right in every thread that may start the job, and in a stage that
  * is run again.
  *
  * @param isRouted
  *   whether the group's shuffles follow the table; else it is in a single partition
  */
final case class GroupExec(
    child: SparkPlan,
    assignment: Assignment,
    tables: Broadcast[Tables],
    isRouted: Boolean
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def nodeName: String = "MegaphoneGroup"
  override def simpleString(maxFields: Int): String = s"MegaphoneGroup $assignment"

  override protected def doExecute(): RDD[InternalRow] = {
    if (isRouted) RoutingCheck(wholePlan, assignment.group, tables.value.after)
    child.foreach { case o: TransformWithStateExecBase => StateStoreNames.allow(o); case _ => () }
    new AssignmentRDD(child.execute(), assignment, tables)
  }

  /** The batch's plan, in which a join above this node may have more shuffles of the group. */
  private def wholePlan: SparkPlan =
    RunningQuery
      .lastPlan(session, UUID.fromString(assignment.run))
      .filter(_.exists(_ eq this))
      .getOrElse(child)

  override protected def withNewChildInternal(newChild: SparkPlan): GroupExec =
    copy(child = newChild)
}
