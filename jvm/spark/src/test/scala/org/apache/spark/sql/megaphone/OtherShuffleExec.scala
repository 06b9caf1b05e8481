// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import scala.concurrent.Future

import org.apache.spark.MapOutputStatistics
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.Statistics
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{ShufflePartitionSpec, SparkPlan}
import org.apache.spark.sql.execution.exchange.{
  ShuffleExchangeExec, ShuffleExchangeLike, ShuffleOrigin
}

/** A shuffle that is not Spark's own, as plugins for columns put it into a plan, of columns or of
  * rows. Its class has to be in Spark's package, for a method that it implements has a private
  * type.
  */
final case class OtherShuffleExec(
    shuffle: ShuffleExchangeExec,
    override val supportsColumnar: Boolean = false
) extends ShuffleExchangeLike {
  override def child: SparkPlan = shuffle.child
  override def outputPartitioning: Partitioning = shuffle.outputPartitioning
  override def numMappers: Int = shuffle.numMappers
  override def numPartitions: Int = shuffle.numPartitions
  override def advisoryPartitionSize: Option[Long] = shuffle.advisoryPartitionSize
  override def shuffleOrigin: ShuffleOrigin = shuffle.shuffleOrigin
  override def shuffleId: Int = shuffle.shuffleId
  override protected def mapOutputStatisticsFuture: Future[MapOutputStatistics] =
    shuffle.submitShuffleJob()
  override def getShuffleRDD(specs: Array[ShufflePartitionSpec]): RDD[_] =
    shuffle.getShuffleRDD(specs)
  override def runtimeStatistics: Statistics = shuffle.runtimeStatistics
  override protected def doExecute(): RDD[InternalRow] = shuffle.execute()
  override protected def withNewChildInternal(newChild: SparkPlan): OtherShuffleExec =
    copy(shuffle.copy(child = newChild))
}
