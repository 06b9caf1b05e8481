// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  Attribute, Expression, SortOrder, UnsafeProjection, UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

import io.megaphone.plan.Bins
import io.megaphone.runtime.Wanted
import io.megaphone.spark.executor.TaskAssignments
import io.megaphone.spark.partitioning.PartitionHash

/** The node above an exchange of a group, in batches in which bins may be incomplete: it tells the
  * task which keys its rows have, before the state is asked for them. So they are brought together.
  *
  * It holds some rows back, and passes on all of them as they are. Under a sort or an aggregation
  * the whole batch is known before the first access to the state; else the rows held back are.
  *
  * @param keys
  *   what the exchange sends rows by, which is the partition key of every store of the group
  * @param incomplete
  *   the bins that may be incomplete
  */
final case class LookAheadExec(
    child: SparkPlan,
    keys: Seq[Expression],
    group: Long,
    binsCount: Int,
    incomplete: Set[Int]
) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def nodeName: String = "MegaphoneLookAhead"
  override def simpleString(maxFields: Int): String =
    s"MegaphoneLookAhead group $group, ${incomplete.size} bins"

  override protected def doExecute(): RDD[InternalRow] = {
    val hash = PartitionHash.of(HashPartitioning(keys, 1).partitionIdExpression)
    val attributes = child.output
    val (of, count, bins) = (group, binsCount, incomplete)
    child.execute().mapPartitions { rows =>
      TaskAssignments.wanted(TaskContext.get(), of).fold(rows) { wanted =>
        val hashOf = UnsafeProjection.create(Seq(hash), attributes)
        new LookAheadExec.Watched(rows, wanted, hashOf(_).getInt(0), h => bins(Bins.of(h, count)))
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): LookAheadExec =
    copy(child = newChild)
}

private[rule] object LookAheadExec {

  /** Rows that are held back, and their bytes. */
  private val RowsAhead = 4096
  private val BytesAhead = 1L << 20

  /** Passes rows on, and tells the task their hashes before the first of them. */
  private[rule] final class Watched(
      rows: Iterator[InternalRow],
      wanted: Wanted,
      hashOf: InternalRow => Int,
      isIncomplete: Int => Boolean
  ) extends Iterator[InternalRow] {
    private val ahead = mutable.Queue.empty[InternalRow]

    override def hasNext: Boolean = ahead.nonEmpty || rows.hasNext
    override def next(): InternalRow = {
      if (ahead.isEmpty) takeAhead()
      ahead.dequeue()
    }

    private def takeAhead(): Unit = {
      var bytes = 0L
      while (ahead.size < RowsAhead && bytes < BytesAhead && rows.hasNext) {
        val row = rows.next().copy()
        val hash = hashOf(row)
        if (isIncomplete(hash)) wanted.add(hash)
        bytes += (row match { case r: UnsafeRow => r.getSizeInBytes.toLong; case _ => 0L })
        ahead += row
      }
    }
  }
}
