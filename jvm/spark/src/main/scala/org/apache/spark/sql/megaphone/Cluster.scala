// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.{ExecutorAllocationClient, SparkContext}
import org.apache.spark.storage.BlockManagerId

import io.megaphone.format.ExecutorAddress

/** The executors of an application.
  *
  * Private to Spark (4.2, 4.3): `SparkContext.env`, `SparkContext.schedulerBackend`,
  * `ExecutorAllocationClient`.
  */
object Cluster {

  /** The executors that are registered now, in the order of their ids, without the ports at which
    * they answer each other. The driver is included only in local mode, where it is the executor.
    * Asks the driver's own block manager endpoint. That may list one for ever that died as it
    * registered, so the scheduler has to know it, too. And it forgets one for some seconds from
    * which a task could not fetch.
    */
  def executors(sc: SparkContext): Vector[ExecutorAddress] = executors(sc, Nil)

  /** @param before
    *   executors that were there before: they are, as long as the scheduler knows that they live
    */
  def executors(sc: SparkContext, before: Iterable[ExecutorAddress]): Vector[ExecutorAddress] = {
    val all = sc.env.blockManager.master.getMemoryStatus.keys.toVector
    def addresses(of: Vector[BlockManagerId]) =
      of.map(e => ExecutorAddress(e.executorId, e.host, 0))
    val there = sc.schedulerBackend match {
      case backend: ExecutorAllocationClient =>
        val known = backend.getExecutorIds().toSet
        // One whose end Spark has heard of, but not yet the reason, is known and not active.
        def lives(id: String) = backend.isExecutorActive(id) ||
          sc.taskScheduler.getExecutorDecommissionState(id).isDefined
        (addresses(all) ++ before.filter(e => lives(e.id)))
          .filter(e => known(e.id))
          .distinctBy(_.id)
      case _ => addresses(if (sc.isLocal) all else all.filterNot(_.isDriver))
    }
    there.sortBy(e => (e.id.length, e.id))
  }

  /** Of some executors those that Spark gives no tasks any more, because they are decommissioned or
    * about to be removed. They may still be registered.
    */
  def leaving(sc: SparkContext, ids: Seq[String]): Set[String] = sc.schedulerBackend match {
    case backend: ExecutorAllocationClient => ids.filterNot(backend.isExecutorActive).toSet
    case _ => Set.empty // local mode
  }
}
