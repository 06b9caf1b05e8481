// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.concurrent.TrieMap
import scala.collection.mutable

import io.megaphone.format.ExecutorAddress
import io.megaphone.placement.Placement
import io.megaphone.plan.Group

/** Where a run's workers are, and where they are wanted. A group's workers are placed as one: all
  * its operators run in the same tasks.
  *
  * Threads: one at a time. `cluster`, `ran` and `executorOf` may be called by any thread at any
  * time.
  */
private[runtime] final class WorkerPlaces {
  private val ranOn = TrieMap.empty[(Long, Int), String] // (operator, worker) → executor
  private val wantedOf = mutable.Map.empty[Long, Vector[String]] // group → executors
  private val pinned = mutable.Map.empty[(Long, Int), String]
  @volatile private var seen = ClusterView.Empty

  /** The newest view of the cluster. */
  def cluster: ClusterView = seen

  /** Takes a newer view. Returns the executors that are gone. */
  def see(now: ClusterView): Vector[String] = {
    val lost = seen.ids.filterNot(id => now.get(id).isDefined)
    pinned.filterInPlace((_, executor) => !lost.contains(executor))
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

  /** Wishes an executor for each of so many workers of a group. */
  def place(group: Long, workers: Int): Unit = {
    val before = wantedOf.getOrElse(group, Vector.empty)
    wantedOf(group) =
      Placement.assign(workers, w => executorOf(group, w).orElse(before.lift(w)), cluster.hosts)
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
