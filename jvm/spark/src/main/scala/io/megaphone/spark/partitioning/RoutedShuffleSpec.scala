// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.partitioning

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.{
  ClusteredDistribution, Partitioning, ShuffleSpec, ShuffleSpecCollection,
  SinglePartitionShuffleSpec
}
import org.apache.spark.sql.internal.SQLConf

/** Tells Spark which side of a join, a cogroup or the like already lies as a routed side does, and
  * how to shuffle another side so that it does.
  *
  * Spark's own spec of a hash partitioning looks at keys and at the number of partitions, and would
  * hold a routed side to be hashed by Spark. Here the table counts as well. Since this is another
  * class, no spec of Spark's takes it for one of its own kind either.
  *
  * Of two sides that both come from a batch, one is shuffled, even if they lie alike: a batch that
  * is joined with itself. Else a task would compute the batch's rows twice, by turns, and write the
  * worker's state twice.
  */
private[partitioning] final class RoutedShuffleSpec(
    partitioning: RoutedPartitioning,
    distribution: ClusteredDistribution
) extends ShuffleSpec {

  /** For each key of the partitioning, its places among those that have to be together. A key may
    * have several: `a.k = b.x and a.k = b.y`.
    */
  private val places: Seq[Set[Int]] = partitioning.expressions.map { key =>
    distribution.clustering.indices.filter(distribution.clustering(_).semanticEquals(key)).toSet
  }

  override def numPartitions: Int = partitioning.numPartitions

  override def isCompatibleWith(other: ShuffleSpec): Boolean = other match {
    case SinglePartitionShuffleSpec => numPartitions == 1
    case that: RoutedShuffleSpec => isAlike(that)
    case ShuffleSpecCollection(specs) => specs.exists(isCompatibleWith)
    case _ => false
  }

  /** False too if Spark is told to co-partition by all keys or by none, as for its own. */
  override def canCreatePartitioning: Boolean =
    places.forall(_.nonEmpty) &&
      (!SQLConf.get.getConf(SQLConf.REQUIRE_ALL_CLUSTER_KEYS_FOR_CO_PARTITION) ||
        distribution.areAllClusterKeysMatched(partitioning.expressions))

  override def createPartitioning(clustering: Seq[Expression]): Partitioning =
    new RoutedPartitioning(places.map(of => clustering(of.min)), table, isOfBatch = false)

  private def isAlike(that: RoutedShuffleSpec): Boolean =
    (that eq this) || !(isOfBatch && that.isOfBatch) && isBySame(that)

  private def isBySame(that: RoutedShuffleSpec) =
    table == that.table && width == that.width && places.size == that.places.size &&
      places.zip(that.places).forall { case (mine, others) => mine.exists(others) }

  private def table = partitioning.table
  private def isOfBatch = partitioning.isOfBatch
  private def width: Int = distribution.clustering.size
}
