// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.megaphone.format.{Footer, StoreKey, WorkerId}
import io.megaphone.log.memory.HeapBudget

/** All holdings of one executor, by run, operator, store and worker, and the copies it prepares of
  * other executors' workers.
  *
  * Their life hangs on the driver's word alone: `keepRuns` and `keepCopies` drop what it no longer
  * names. Opening or closing a store never does. Any thread.
  *
  * @param space
  *   the heap that all of them may take
  * @param behindMax
  *   how many versions a holding may be behind the settled one: beyond that, no chain of footers
  *   leads on from it, and it is recovered anew in any case
  */
final class Registry(
    behindMax: Int = Footer.PreviousMax,
    val budget: HeapBudget = HeapBudget.Unlimited
) {
  private val slots = new ConcurrentHashMap[WorkerId, Slot]()
  private val replicas = new ConcurrentHashMap[ReplicaKey, Holding]()

  /** Takes the lease on a worker's holding, an empty one where there is none yet. Throws
    * LeaseTimeoutException.
    */
  def lease(worker: WorkerId, binsCount: Int, attempt: Attempt, waitMs: Long): Lease =
    slots.computeIfAbsent(worker, _ => new Slot(worker, binsCount)).acquire(attempt, waitMs)

  /** A worker's holding as it stands, whoever writes it. */
  def holding(worker: WorkerId): Option[Holding] = Option(slots.get(worker)).map(_.peek)

  /** A replica. Its user holds its monitor. */
  def replica(key: ReplicaKey): Option[Holding] = Option(replicas.get(key))
  def putReplica(key: ReplicaKey, replica: Holding): Unit = { replicas.put(key, replica); () }
  def dropReplica(key: ReplicaKey): Unit = { replicas.remove(key); () }

  /** Drops the replicas that are not wanted. */
  def keepReplicas(isWanted: ReplicaKey => Boolean): Unit = {
    replicas.keySet.removeIf(k => !isWanted(k)); ()
  }

  /** Drops what is of no use any more: all memory of runs that the driver no longer lists, and, of
    * those it does, the holdings of workers that run elsewhere now, or that a step has done away
    * with. What a task has the lease of stays.
    *
    * @param settledOf
    *   the newest settled version of a run; None for one that has ended
    */
  def keepRuns(settledOf: String => Option[Long]): Unit = {
    def isWanted(key: StoreKey, slot: Slot) =
      slot.isLeased || settledOf(key.run).exists(_ <= slot.peek.base.version + behindMax)
    slots.entrySet.removeIf(e => !isWanted(e.getKey.store, e.getValue))
    replicas.keySet.removeIf(k => settledOf(k.store.run).isEmpty)
    ()
  }

  /** Tells the space what all holdings and copies take. */
  def measure(): Unit = budget.measure {
    var sum = 0L
    slots.values.forEach(slot => sum += slot.peek.heapBytes)
    replicas.values.forEach(replica => sum += replica.heapBytes)
    sum
  }

  /** After a worker's commit, by the holder of its lease: brings what all holdings take of the heap
    * nearer to the budget. Looks at no log where there is nothing to do. Throws SpillException.
    */
  def keepWithin(holding: Holding): Unit = {
    if (budget.isTight) measure()
    if (budget.isTight || budget.bytesOnDisk > 0) holding.spill(budget.share(holding.heapBytes))
  }

  def holdingsCount: Int = slots.size
  def replicasCount: Int = replicas.size
  def runs: Set[String] = slots.keySet.asScala.map(_.store.run).toSet
  def isEmpty: Boolean = slots.isEmpty && replicas.isEmpty
}
