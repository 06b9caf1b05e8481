// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.partitioning

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.{DataType, IntegerType}

import io.megaphone.plan.RoutingTable

/** The worker of a key's hash. Generated code holds the table by reference, so it stays the same,
  * and compiled, when the table changes. A plan prints the table's number, not its content.
  */
final case class WorkerOf(child: Expression, table: RoutingTable) extends UnaryExpression {
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType
  override def toString: String = s"megaphone($child; $table)"

  override def eval(input: InternalRow): Any =
    table.workerOfHash(child.eval(input).asInstanceOf[Int])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val reference = ctx.addReferenceObj("table", table, classOf[RoutingTable].getName)
    val hash = child.genCode(ctx)
    ev.copy(
      code = code"${hash.code}\nfinal int ${ev.value} = $reference.workerOfHash(${hash.value});",
      isNull = FalseLiteral
    )
  }

  override protected def withNewChildInternal(newChild: Expression): WorkerOf =
    copy(child = newChild)
}
