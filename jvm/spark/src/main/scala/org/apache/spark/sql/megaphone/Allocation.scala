// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.{ExecutorAllocationClient, MapOutputTrackerMaster, SparkContext}
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.{
  ExecutorDecommissionInfo, SparkListenerBlockUpdated, SparkListenerJobStart, TaskSchedulerImpl
}
import org.apache.spark.storage.{BlockUpdatedInfo, RDDBlockId, StorageLevel}
import org.apache.spark.util.Utils

/** What an application asks its scheduler and its cluster manager about executors that are to go or
  * to stay. Only executors of the default resource profile are started or ended.
  *
  * Private to Spark (4.2, 4.3): `SparkContext.conf`, `SparkContext.env`,
  * `SparkContext.schedulerBackend`, `SparkContext.taskScheduler`,
  * `SparkContext.executorAllocationManager`, `SparkContext.newRddId`,
  * `SparkContext.shuffleDriverComponents`, `ExecutorAllocationClient`, `StageInfo.shuffleDepId`,
  * `TaskSchedulerImpl`, `MapOutputTrackerMaster`, `ExecutorDecommissionInfo`, `Utils`.
  */
object Allocation {

  /** Whether a certain executor can be ended. Not in local mode, and not where the cluster manager
    * chooses one itself when fewer are wanted: a StatefulSet or a Deployment of Kubernetes.
    */
  def canEnd(sc: SparkContext): Boolean = client(sc).isDefined &&
    sc.conf.get("spark.kubernetes.allocation.pods.allocator", "direct") == "direct"

  /** The ids of the executors that are registered; none in local mode. Asks nobody. */
  def registered(sc: SparkContext): Set[String] = client(sc).fold(Set.empty[String]) {
    _.getExecutorIds().toSet
  }

  private def client(sc: SparkContext): Option[ExecutorAllocationClient] =
    sc.schedulerBackend match {
      case client: ExecutorAllocationClient => Some(client)
      case _ => None
    }

  def isDynamic(sc: SparkContext): Boolean = Utils.isDynamicAllocationEnabled(sc.conf)

  /** How many executors dynamic allocation wants now; None without it. */
  def wanted(sc: SparkContext): Option[Int] = sc.executorAllocationManager.map { manager =>
    manager.synchronized {
      manager.numExecutorsTargetPerResourceProfileId
        .getOrElse(ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID, 0)
    }
  }

  /** Whether Spark knows that an executor is about to go, for which there is no event. */
  def isDecommissioned(sc: SparkContext, executor: String): Boolean =
    sc.taskScheduler.getExecutorDecommissionState(executor).isDefined

  /** Gives an executor no more tasks, without telling it. That cannot be taken back. */
  def cordon(sc: SparkContext, executor: String): Unit = client(sc).foreach { client =>
    val info = ExecutorDecommissionInfo("its keyed state is elsewhere, and it is to be ended", None)
    client.decommissionExecutors(
      Array(executor -> info),
      adjustTargetNumExecutors = false,
      triggeredByExecutor = true
    )
  }

  /** Whether a task runs on an executor. */
  def isBusy(sc: SparkContext, executor: String): Boolean = sc.taskScheduler match {
    case scheduler: TaskSchedulerImpl => scheduler.isExecutorBusy(executor)
    case _ => false
  }

  /** The shuffles that a job needs. */
  def shufflesOf(job: SparkListenerJobStart): Set[Int] =
    job.stageInfos.iterator.flatMap(_.shuffleDepId).toSet

  /** Whether an executor has map output of some shuffles, that is gone with it. */
  def hasOutput(sc: SparkContext, shuffles: Set[Int], executor: String): Boolean =
    !outlives(sc) && (sc.env.mapOutputTracker match {
      case tracker: MapOutputTrackerMaster =>
        shuffles.iterator.flatMap(tracker.shuffleStatuses.get).exists { shuffle =>
          shuffle.withMapStatuses(_.exists(s => s != null && s.location.executorId == executor))
        }
      case _ => false
    })

  /** Whether map output outlives its executor: a service on the host has it, or a shuffle plugin
    * keeps it elsewhere.
    */
  private def outlives(sc: SparkContext): Boolean =
    sc.conf.getBoolean("spark.shuffle.service.enabled", false) ||
      sc.shuffleDriverComponents.supportsReliableStorage

  /** Whether executors can be asked for. Not in local mode. */
  def canStart(sc: SparkContext): Boolean = client(sc).isDefined

  /** Asks the cluster manager for so many executors in all, and no more. Not with dynamic
    * allocation, which does so itself. Returns whether it has taken the request.
    */
  def limit(sc: SparkContext, executors: Int): Boolean = client(sc).exists { client =>
    client.requestTotalExecutors(
      Map(ResourceProfile.DEFAULT_RESOURCE_PROFILE_ID -> executors),
      Map.empty,
      Map.empty
    )
  }

  /** Asks the cluster manager to end an executor. Spark asks once, however often this is called.
    * Returns whether the cluster manager agrees, as far as this call can say: Spark may have asked
    * it before.
    */
  def end(sc: SparkContext, executor: String): Boolean = client(sc).exists { client =>
    val ending = client.killExecutors(
      Seq(executor),
      adjustTargetNumExecutors = false,
      countFailures = false,
      force = true
    )
    ending.contains(executor)
  }

  /** The number of an RDD that nobody has, for `hold`. */
  def newRdd(sc: SparkContext): Int = sc.newRddId()

  /** Tells dynamic allocation that an executor has a cached block, or has it no more. There is no
    * such block, so none can be evicted or moved. As long as an executor has one, its idle time is
    * limited by `spark.dynamicAllocation.cachedExecutorIdleTimeout`, which has no end by default.
    * Returns the executors that are known well enough to be told of.
    *
    * @param changes
    *   whether each executor is to be held
    */
  def hold(sc: SparkContext, rdd: Int, changes: Map[String, Boolean]): Set[String] = {
    val managers = sc.env.blockManager.master.getMemoryStatus.keys
    val found = managers.filter(manager => changes.contains(manager.executorId)).toVector
    found.foreach { manager =>
      val level = if (changes(manager.executorId)) StorageLevel.MEMORY_ONLY else StorageLevel.NONE
      val block = BlockUpdatedInfo(manager, RDDBlockId(rdd, 0), level, 0, 0)
      sc.listenerBus.post(SparkListenerBlockUpdated(block))
    }
    found.map(_.executorId).toSet
  }
}
