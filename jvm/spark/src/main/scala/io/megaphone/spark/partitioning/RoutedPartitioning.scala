// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.partitioning

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning

import io.megaphone.plan.RoutingTable

/** The partitioning of a routed exchange: key → hash → bin → worker, by a routing table.
  *
  * It is a subclass of `HashPartitioning` with the same keys, so that unions, joins above it,
  * exchange reuse and Spark's own checks treat it as one. Two are equal only if their tables are
  * equal, so an exchange is never reused under another table.
  */
final class RoutedPartitioning(keys: Seq[Expression], val table: RoutingTable)
    extends HashPartitioning(keys, table.workers) {

  override def partitionIdExpression: Expression =
    WorkerOf(PartitionHash.of(super.partitionIdExpression), table)

  override protected def withNewChildrenInternal(
      newChildren: IndexedSeq[Expression]
  ): HashPartitioning = new RoutedPartitioning(newChildren, table)

  // Spark copies, prints and compares a node by its constructor's arguments.
  override def productArity: Int = 2
  override def productElement(n: Int): Any = if (n == 0) expressions else table

  override def canEqual(other: Any): Boolean = other.isInstanceOf[RoutedPartitioning]
  override def equals(other: Any): Boolean = other match {
    case that: RoutedPartitioning => that.expressions == expressions && that.table == table
    case _ => false
  }
  override def hashCode: Int = 31 * expressions.hashCode + table.hashCode
  override def toString: String = s"megaphone(${expressions.mkString(", ")}; $table)"
}
