// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.concurrent.TrieMap
import scala.collection.mutable

import io.megaphone.format.{ExecutorAddress, StoreId}
import io.megaphone.placement.Placement
import io.megaphone.plan.Group

/** Where a run's workers are, where they are wanted, and who stands by for them. A group's workers
  * are placed as one: all its operators run in the same tasks.
  *
  * Threads: one at a time. `cluster`, `ran`, `executorOf`, `standsBy`, `standbys` and `isWhole` may
  * be called by any thread at any time.
  */
private[runtime] final class WorkerPlaces {
  private val ranOn = TrieMap.empty[(Long, Int), String] // (operator, worker) → executor
  private val wantedOf = mutable.Map.empty[Long, Vector[String]] // group → executors
  private val pinned = mutable.Map.empty[(Long, Int), String]
  private val standing = TrieMap.empty[String, Map[(StoreId, Int), Standing]] // by executor
  @volatile private var wantedStandbys = Map.empty[Long, Vector[Vector[String]]] // by worker
  @volatile private var seen = ClusterView.Empty

  /** The newest view of the cluster. */
  def cluster: ClusterView = seen

  /** Takes a newer view. Returns the executors that are gone. */
  def see(now: ClusterView): Vector[String] = {
    val lost = seen.ids.filterNot(id => now.get(id).isDefined)
    pinned.filterInPlace((_, executor) => !lost.contains(executor))
    lost.foreach(standing.remove)
    seen = now
    lost
  }

  /** A worker of an operator has committed on an executor. */
  def ran(operator: Long, worker: Int, executor: String): Unit =
    ranOn((operator, worker)) = executor

  /** The executor that a worker ran on last, if it is known. */
  def executorOf(operator: Long, worker: Int): Option[String] = ranOn.get((operator, worker))

  /** The address of that executor, if others can ask it. */
  def addressOf(group: Long, worker: Int): Option[ExecutorAddress] =
    executorOf(group, worker).flatMap(cluster.peer)

  /** An executor reports how far its standbys are. */
  def standsBy(executor: String, standbys: Vector[Standing]): Unit =
    standing(executor) = standbys.map(s => (s.worker.store.id, s.worker.worker) -> s).toMap

  /** By group: the executors that are to stand by for each worker. Another map if that changes. */
  def standbys: Map[Long, Vector[Vector[String]]] = wantedStandbys

  /** The executors that are to stand by for each worker of a group. */
  def standbysOf(group: Long): Vector[Vector[String]] = standbys.getOrElse(group, Vector.empty)

  /** Wishes an executor, and some that stand by, for each of so many workers of a group. A worker
    * whose executor is gone goes where a standby of it is.
    */
  def place(group: Group, workers: Int, replicas: Int): Unit = {
    val before = wantedOf.getOrElse(group.id, Vector.empty)
    val staying = cluster.hosts
    val isStaying = staying.toSet
    val places = Placement.assign(
      workers,
      w => executorOf(group.id, w).filter(isStaying).orElse(before.lift(w)),
      staying,
      stateOn(group, _)
    )
    wantedOf(group.id) = places
    if (replicas > 0) {
      val known = standbysOf(group.id)
      val hosts = staying.flatMap(cluster.get).map(e => e.id -> e.host).toMap
      wantedStandbys = wantedStandbys.updated(
        group.id,
        // Where the worker was before, its state is.
        Placement.standbys(
          places,
          w => known.lift(w).toSeq.flatten ++ before.lift(w),
          hosts,
          replicas,
          isWhole(group, _, _)
        )
      )
    }
  }

  /** Whether an executor has a standby with all bins of a worker, in all stores. */
  def isWhole(group: Group, worker: Int, executor: String): Boolean =
    versionOn(group, worker, executor).isDefined

  /** The executors with the newest standbys that have all bins of a worker. */
  private def stateOn(group: Group, worker: Int): Seq[String] = {
    val versions = for {
      executor <- standing.keys.toVector
      version <- versionOn(group, worker, executor)
    } yield executor -> version
    val newest = versions.map(_._2).maxOption
    versions.collect { case (executor, version) if newest.contains(version) => executor }
  }

  private def versionOn(group: Group, worker: Int, executor: String): Option[Long] = {
    val known = standing.getOrElse(executor, Map.empty)
    val found = group.stores.flatMap(store => known.get((store, worker)))
    Option.when(found.size == group.stores.size && found.forall(_.isWhole))(
      found.iterator.map(_.version).min
    )
  }

  /** The executor that is wished for each worker, by group. */
  def wanted: Map[Long, Vector[String]] = wantedOf.toMap

  /** Pins for those of a group's workers that are not known to run where they are wanted. */
  def pinsOf(group: Group, workers: Int): Vector[Pin] = for {
    (executor, worker) <- wantedOf.getOrElse(group.id, Vector.empty).zipWithIndex.take(workers)
    operator <- group.operators
    key = (operator.id, worker)
    if !pinned.get(key).contains(executor) || !ranOn.get(key).forall(_ == executor)
    address <- cluster.get(executor)
  } yield { pinned(key) = executor; Pin(operator.id, operator.stores, worker, address) }
}
