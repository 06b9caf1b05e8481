// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.partitioning

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.{
  ClusteredDistribution, Distribution, HashPartitioning, ShuffleSpec,
  StatefulOpClusteredDistribution
}

import io.megaphone.plan.RoutingTable

/** The partitioning of a routed exchange: key → hash → bin → worker, by a routing table.
  *
  * It is a subclass of `HashPartitioning` with the same keys: rows with equal keys are together, so
  * an aggregate, a window or a `distinct` above it needs no exchange, and Spark's exchange asks it
  * for a row's partition. It is not Spark's hash of those keys, and whatever asks where else a key
  * would be is told so:
  *   - Two are equal only if their tables are, and none is equal to a `HashPartitioning`. An
  *     exchange is never reused under another table, a union does not put the partitions of sides
  *     that lie differently together, and a user's `repartition` on the same keys is carried out.
  *   - Its [[RoutedShuffleSpec]] is compatible only with one of an equal table, that of a shuffle.
  *     A join in the function of `foreachBatch`, whose input keeps this partitioning, shuffles the
  *     other side by the table.
  *   - It does not satisfy what a stateful operator asks for, which is Spark's own hash. The rule
  *     that routes runs after Spark has checked that, so only a plan above a routed one asks.
  *
  * @param isOfBatch
  *   whether rows lie so since a batch of the query, and not by a shuffle above it
  */
final class RoutedPartitioning(
    keys: Seq[Expression],
    val table: RoutingTable,
    val isOfBatch: Boolean = true
) extends HashPartitioning(keys, table.workers) {

  override def partitionIdExpression: Expression =
    WorkerOf(PartitionHash.of(super.partitionIdExpression), table)

  override def createShuffleSpec(distribution: ClusteredDistribution): ShuffleSpec =
    new RoutedShuffleSpec(this, distribution)

  override def satisfies0(required: Distribution): Boolean = required match {
    case _: StatefulOpClusteredDistribution => false
    case other => super.satisfies0(other)
  }

  /** Keeps the table: an adaptive plan renames the keys of a coalesced read so. With another number
    * of partitions, which the table does not have, it is Spark's own partitioning.
    */
  override def copy(expressions: Seq[Expression], numPartitions: Int): HashPartitioning =
    if (numPartitions == table.workers) new RoutedPartitioning(expressions, table, isOfBatch)
    else super.copy(expressions, numPartitions)

  override protected def withNewChildrenInternal(
      newChildren: IndexedSeq[Expression]
  ): HashPartitioning = new RoutedPartitioning(newChildren, table, isOfBatch)

  // Spark copies, prints and compares a node by its constructor's arguments.
  override def productArity: Int = 3
  override def productElement(n: Int): Any = Seq[Any](expressions, table, isOfBatch)(n)

  override def canEqual(other: Any): Boolean = other.isInstanceOf[RoutedPartitioning]
  override def equals(other: Any): Boolean = other match {
    case that: RoutedPartitioning => that.expressions == expressions && that.table == table
    case _ => false
  }
  override def hashCode: Int = 31 * expressions.hashCode + table.hashCode
  override def toString: String = s"megaphone(${expressions.mkString(", ")}; $table)"
}
