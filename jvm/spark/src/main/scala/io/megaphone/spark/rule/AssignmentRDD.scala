// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import scala.reflect.ClassTag

import org.apache.spark.{Partition, Partitioner, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD

import io.megaphone.runtime.{Assignment, Tables}
import io.megaphone.spark.executor.TaskAssignments

private final class AssignmentRDD[T: ClassTag](
    parent: RDD[T],
    assignment: Assignment,
    tables: Broadcast[Tables]
) extends RDD[T](parent) {
  override val partitioner: Option[Partitioner] = parent.partitioner
  override protected def getPartitions: Array[Partition] = firstParent[T].partitions

  override def compute(split: Partition, context: TaskContext): Iterator[T] = {
    TaskAssignments.put(context, assignment, tables.value)
    firstParent[T].iterator(split, context)
  }
}
