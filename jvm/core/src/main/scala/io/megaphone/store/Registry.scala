// SPDX-License-Identifier: Apache-2.0
package io.megaphone.store

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/** All holdings of one executor, by run, operator, store and worker, and the copies it prepares of other executors' workers.
  *
  * Their life hangs on the driver's word alone: `keepRuns` and `keepCopies` drop what it no longer names. Opening or closing a store never does. Any thread.
  */
final class Registry {
  private val slots = new ConcurrentHashMap[(StoreKey, Int), Slot]()
  private val copies = new ConcurrentHashMap[CopyKey, Holding]()

  /** Takes the lease on a worker's holding, an empty one where there is none yet. Throws LeaseTimeoutException. */
  def lease(key: StoreKey, worker: Int, binsCount: Int, attempt: Attempt, waitMs: Long): Lease =
    slots.computeIfAbsent((key, worker), _ => new Slot(key, worker, binsCount)).acquire(attempt, waitMs)

  /** A worker's holding as it stands, whoever writes it. */
  def holding(key: StoreKey, worker: Int): Option[Holding] = Option(slots.get((key, worker))).map(_.peek)

  /** A prepared copy. Its user holds its monitor. */
  def copy(key: CopyKey): Option[Holding] = Option(copies.get(key))
  def putCopy(key: CopyKey, copy: Holding): Unit = { copies.put(key, copy); () }
  def dropCopy(key: CopyKey): Unit = { copies.remove(key); () }

  /** Drops the copies that no duty names any more. */
  def keepCopies(isWanted: CopyKey => Boolean): Unit = { copies.keySet.removeIf(k => !isWanted(k)); () }

  /** Drops all memory of runs that the driver no longer lists, except what a task still has the lease of. */
  def keepRuns(isLive: String => Boolean): Unit = {
    slots.entrySet.removeIf(e => !isLive(e.getKey._1.run) && !e.getValue.isLeased)
    copies.keySet.removeIf(k => !isLive(k.store.run))
    ()
  }

  def holdingsCount: Int = slots.size
  def copiesCount: Int = copies.size
  def runs: Set[String] = slots.keySet.asScala.map(_._1.run).toSet
  def isEmpty: Boolean = slots.isEmpty && copies.isEmpty
}

/** The copy of some bins of worker `source` that is prepared for worker `target`, for one step. */
final case class CopyKey(store: StoreKey, source: Int, target: Int, step: String)
