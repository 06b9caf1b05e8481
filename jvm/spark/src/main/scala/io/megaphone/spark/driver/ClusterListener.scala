// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import scala.collection.concurrent.TrieMap

import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler._
import org.apache.spark.sql.megaphone.Allocation

/** Takes what Spark's listener bus says of executors and jobs. Spark may drop an event, so nothing
  * wrong may follow from one that is missing.
  *
  * Threads: Spark's; `shuffles` may be called by any.
  */
final class ClusterListener(members: Membership) extends SparkListener {
  import ClusterListener.Job

  private val jobs = TrieMap.empty[Int, Job]

  /** The shuffles of the jobs that run, or have just ended: one statement may run several jobs,
    * each of which reads what the others have left.
    */
  def shuffles: Set[Int] = {
    val now = System.nanoTime
    jobs.filterInPlace((_, job) => job.end.forall(now - _ < ClusterListener.GraceNanos))
    jobs.valuesIterator.flatMap(_.shuffles).toSet
  }

  override def onExecutorAdded(event: SparkListenerExecutorAdded): Unit =
    members.added(
      event.executorId,
      event.executorInfo.totalCores,
      event.executorInfo.resourceProfileId == ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID
    )

  override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit =
    members.lost(event.executorId)

  override def onExecutorExcluded(event: SparkListenerExecutorExcluded): Unit =
    members.excluded(ExcludedExecutor(event.executorId), isExcluded = true)

  override def onExecutorUnexcluded(event: SparkListenerExecutorUnexcluded): Unit =
    members.excluded(ExcludedExecutor(event.executorId), isExcluded = false)

  override def onNodeExcluded(event: SparkListenerNodeExcluded): Unit =
    members.excluded(ExcludedHost(event.hostId), isExcluded = true)

  override def onNodeUnexcluded(event: SparkListenerNodeUnexcluded): Unit =
    members.excluded(ExcludedHost(event.hostId), isExcluded = false)

  override def onJobStart(event: SparkListenerJobStart): Unit =
    jobs(event.jobId) = Job(Allocation.shufflesOf(event), None)

  override def onJobEnd(event: SparkListenerJobEnd): Unit = {
    jobs.updateWith(event.jobId)(_.map(_.copy(end = Some(System.nanoTime))))
    if (jobs.size > ClusterListener.JobsMax) shuffles
    ()
  }
}

private object ClusterListener {
  val GraceNanos = 5L * 1000000000L

  /** Beyond that, jobs that ended long ago are forgotten. */
  val JobsMax = 1000

  /** @param end
    *   when it ended; None while it runs
    */
  final case class Job(shuffles: Set[Int], end: Option[Long])
}
