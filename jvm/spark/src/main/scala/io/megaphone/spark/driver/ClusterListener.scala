// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import scala.collection.concurrent.TrieMap

import org.apache.spark.scheduler._
import org.apache.spark.sql.megaphone.Allocation

/** Takes what Spark's listener bus says of executors and jobs. Spark may drop an event, so nothing
  * wrong may follow from one that is missing.
  *
  * Threads: Spark's; `shuffles` may be called by any.
  */
final class ClusterListener(members: Membership) extends SparkListener {
  private val shufflesOf = TrieMap.empty[Int, Set[Int]] // by job

  /** The shuffles of the jobs that run. */
  def shuffles: Set[Int] = shufflesOf.valuesIterator.flatten.toSet

  override def onExecutorAdded(event: SparkListenerExecutorAdded): Unit =
    members.added(event.executorId, event.executorInfo.totalCores)

  override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit =
    members.lost(event.executorId)

  override def onExecutorExcluded(event: SparkListenerExecutorExcluded): Unit =
    members.excluded(Membership.Id(event.executorId), isExcluded = true)

  override def onExecutorUnexcluded(event: SparkListenerExecutorUnexcluded): Unit =
    members.excluded(Membership.Id(event.executorId), isExcluded = false)

  override def onNodeExcluded(event: SparkListenerNodeExcluded): Unit =
    members.excluded(Membership.Host(event.hostId), isExcluded = true)

  override def onNodeUnexcluded(event: SparkListenerNodeUnexcluded): Unit =
    members.excluded(Membership.Host(event.hostId), isExcluded = false)

  override def onJobStart(event: SparkListenerJobStart): Unit =
    shufflesOf(event.jobId) = Allocation.shufflesOf(event)

  override def onJobEnd(event: SparkListenerJobEnd): Unit = shufflesOf -= event.jobId
}
