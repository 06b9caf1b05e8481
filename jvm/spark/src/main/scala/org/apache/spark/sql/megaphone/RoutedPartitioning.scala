// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, Pmod, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.types.{DataType, IntegerType}

import io.megaphone.routing.RoutingTable

/** The partitioning of a routed exchange: key → hash → bin → worker, by a routing table.
  *
  * A subclass of `HashPartitioning` that keeps the keys, so that unions, joins above, exchange reuse and Spark's own checks treat it as one. Two are
  * equal only if their tables are: exchanges of
  * different tables are never reused for each other.
  */
final class RoutedPartitioning(keys: Seq[Expression], val table: RoutingTable) extends HashPartitioning(keys, table.workers) {

  override def partitionIdExpression: Expression = WorkerOf(RoutedPartitioning.hashOf(super.partitionIdExpression), table)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): HashPartitioning = new RoutedPartitioning(newChildren, table)

  // What Spark copies, prints and compares the node by: its own constructor's arguments.
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

object RoutedPartitioning {

  /** The hash in Spark's own partition id expression: whatever it is, collations included, the bins are made of it. */
  def hashOf(partitionId: Expression): Expression = partitionId match {
    case Pmod(hash, Literal(_, IntegerType), _) => hash
    case other =>
      throw new IllegalStateException(s"Spark's partition id is not pmod(hash, partitions) any more but $other: this jar does not fit this Spark version.")
  }
}

/** The worker of a key's hash. Generated code holds the table by reference, so it stays the same, and compiled, when the table changes; a plan prints the
  * table's number, not its content.
  */
final case class WorkerOf(child: Expression, table: RoutingTable) extends UnaryExpression {
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType
  override def toString: String = s"megaphone($child; $table)"

  override def eval(input: InternalRow): Any = table.workerOf(child.eval(input).asInstanceOf[Int] & (table.bins - 1))

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val reference = ctx.addReferenceObj("table", table, classOf[RoutingTable].getName)
    val hash = child.genCode(ctx)
    ev.copy(code = code"${hash.code}\nfinal int ${ev.value} = $reference.workerOf(${hash.value} & ($reference.bins() - 1));", isNull = FalseLiteral)
  }

  override protected def withNewChildInternal(newChild: Expression): WorkerOf = copy(child = newChild)
}
