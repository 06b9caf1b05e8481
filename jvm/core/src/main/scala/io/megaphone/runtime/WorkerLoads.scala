// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.concurrent.TrieMap

import io.megaphone.format.StoreId
import io.megaphone.placement.Load
import io.megaphone.plan.Group

/** What each worker of a run weighs, as its commits told: the bytes of its live records at the
  * newest one, and how long its tasks use the state on its executor, averaged with a half-life of
  * some batches.
  *
  * Threads: any.
  */
private[runtime] final class WorkerLoads {
  import WorkerLoads._

  private val told = TrieMap.empty[(StoreId, Int), Told]

  def committed(c: Committed): Unit = {
    val now = Told(Load(c.liveBytes, c.busyMs.toDouble), c.executor.id, 1)
    told.updateWith((c.worker.store.id, c.worker.worker)) { known =>
      Some(known.filter(_.executor == now.executor).fold(now)(_.and(now.load)))
    }
    ()
  }

  /** Whether a worker has run on its executor for some time. The first tasks on a new one take
    * long, whatever they do.
    */
  def isWarm(group: Group, worker: Int): Boolean =
    group.stores.forall(store => told.get((store, worker)).exists(_.commits >= WarmCommits))

  /** Of how many states of workers something is known. */
  def known: Int = told.size

  /** Bytes of the live records of a worker in a store, if it has committed. */
  def liveBytes(store: StoreId, worker: Int): Option[Long] =
    told.get((store, worker)).map(_.load.bytes)

  /** The same in those stores of a group that are known; None if none is. */
  def bytesOf(group: Group, worker: Int): Option[Long] =
    group.stores.flatMap(liveBytes(_, worker)).reduceOption(_ + _)

  /** A worker of a group; None until all its stores have committed. They are used by one task, at
    * the same time.
    */
  def of(group: Group, worker: Int): Option[Load] = {
    val loads = group.stores.flatMap(store => told.get((store, worker))).map(_.load)
    Option.when(loads.size == group.stores.size)(
      Load(loads.iterator.map(_.bytes).sum, loads.iterator.map(_.busyMs).max)
    )
  }

  /** The same; what is not known of it is 0. */
  def loadOf(group: Group, worker: Int): Load = of(group, worker).getOrElse(Load())
}

private object WorkerLoads {
  private val WarmCommits = 16
  private val HalfLifeBatches = 16.0
  private val NewShare: Double = 1 - math.pow(0.5, 1 / HalfLifeBatches)

  /** @param commits
    *   how many in a row came from the executor
    */
  private final case class Told(load: Load, executor: String, commits: Int) {
    def and(now: Load): Told = {
      val busyMs = load.busyMs + (now.busyMs - load.busyMs) * NewShare
      Told(now.copy(busyMs = busyMs), executor, commits + 1)
    }
  }
}
