// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.megaphone.format.{Chain, Footer, StateName, StoreKey, WorkerId}
import io.megaphone.log.{BinLog, KeyReader}
import io.megaphone.log.memory.HeapBudget
import io.megaphone.pace.Clock

/** All holdings of one executor, by run, operator, store and worker, and the replicas that it keeps
  * of other executors' workers.
  *
  * Only the driver's orders end their life: `keepRuns` and `keepReplicas` drop those that the
  * orders no longer name. Opening or closing a store never drops one.
  *
  * Threads: any.
  *
  * @param behindMax
  *   how many versions a holding may be behind the settled one. Beyond that it would be recovered
  *   from files in any case
  * @param budget
  *   the heap that holdings and replicas together may take, with what was handed out of them
  * @param borrowMs
  *   how long who is no task waits for a task that has the lease
  * @param clock
  *   how long tasks wait for a lease
  */
final class Registry(
    behindMax: Int = Footer.PreviousMax,
    val budget: HeapBudget = HeapBudget.Unlimited,
    borrowMs: Long = Slot.KeeperWaitMs,
    clock: Clock = Clock.System
) {
  private val slots = new ConcurrentHashMap[WorkerId, Slot]()
  private val replicas = new ConcurrentHashMap[ReplicaKey, Replica]()
  @volatile private var standsBy: WorkerId => Boolean = _ => false
  private val keyReaders = new ConcurrentHashMap[StoreKey, () => KeyReader]()
  private val handedOut = ConcurrentHashMap.newKeySet[HeapBudget.User]()

  /** Takes the lease on a worker's holding, which is empty if the worker had none. Throws
    * LeaseTimeoutException.
    */
  def lease(worker: WorkerId, binsCount: Int, attempt: Attempt, waitMs: Long): Lease = {
    val slot = slotOf(worker, binsCount)
    slot.acquire(attempt, waitMs).getOrElse { // None: `keepRuns` is about to remove the slot
      slots.remove(worker, slot)
      lease(worker, binsCount, attempt, waitMs)
    }
  }

  /** Takes the lease on a worker's holding for who is no task. Returns None if a task has it, or if
    * the holding is about to be dropped.
    */
  def tryLease(worker: WorkerId, binsCount: Int, attempt: Attempt): Option[Lease] =
    slotOf(worker, binsCount).tryAcquire(attempt)

  private def slotOf(worker: WorkerId, binsCount: Int) =
    slots.computeIfAbsent(worker, _ => new Slot(worker, binsCount, clock))

  /** Takes the lease on a holding for who is no task. Waits a moment for who has it, at most until
    * the holding is where it is wanted. Returns None if it is not there, or others still have it.
    */
  def borrow(worker: WorkerId, attempt: Attempt)(isThere: Holding => Boolean): Option[Lease] =
    Option(slots.get(worker)).flatMap(_.borrow(attempt, borrowMs, isThere))

  /** Whether this executor is to stand by for a worker. */
  def isStandby(worker: WorkerId): Boolean = standsBy(worker)

  /** Takes a bin that has left a worker of this executor, if it is there with this chain. */
  def takeDeparted(store: StoreKey, bin: Int, chain: Chain): Option[BinLog] =
    slots.asScala.iterator
      .collect { case (worker, slot) if worker.store == store => slot.peek }
      .flatMap(_.takeDeparted(bin, chain))
      .nextOption()

  /** A worker's current holding, even if an attempt is writing it. */
  def holding(worker: WorkerId): Option[Holding] = Option(slots.get(worker)).map(_.peek)

  /** Tells how to read a store's keys. Called twice: the later one counts. */
  def useKeyReader(store: StoreKey, make: () => KeyReader): Unit = {
    keyReaders.put(store, make); ()
  }

  /** The same, if nobody has told yet. Who has just begun does not know all families of the store,
    * and others may be asked for its keys meanwhile.
    */
  def offerKeyReader(store: StoreKey, make: () => KeyReader): Unit = {
    keyReaders.putIfAbsent(store, make); ()
  }

  /** Makes a KeyReader for a store; None if nobody has told how. */
  def keyReaderOf(store: StoreKey): Option[KeyReader] =
    Option(keyReaders.get(store)).map(_.apply())

  /** What steps on demand take from the workers here. */
  val exports = new Exports(holding(_), keyReaderOf(_))

  /** Whether a worker's holding here may still come to `name`: it is at an older one. */
  def mayReach(worker: WorkerId, name: StateName): Boolean =
    holding(worker).exists(_.base.version < name.version)

  def replica(key: ReplicaKey): Option[Replica] = Option(replicas.get(key))

  /** How far each replica is. */
  def reached: Vector[Reached] = replicas.asScala.iterator.map { case (key, replica) =>
    Reached(key, replica.base.version, replica.lacked.size)
  }.toVector

  /** Adds a replica with the bytes that came to make it, and the bins that it lacks. Returns it. */
  def putReplica(
      key: ReplicaKey,
      holding: Holding,
      made: Traffic = Traffic(),
      lacked: Vector[Int] = Vector.empty
  ): Replica = {
    val replica = new Replica(holding, made, lacked)
    replicas.put(key, replica)
    replica
  }
  def dropReplica(key: ReplicaKey): Unit = { replicas.remove(key); () }

  /** Counts the heap of something that was handed out of a holding, until `forget`. */
  def count(user: HeapBudget.User): Unit = { handedOut.add(user); () }
  def forget(user: HeapBudget.User): Unit = { handedOut.remove(user); () }

  /** Drops the replicas that are not wanted. */
  def keepReplicas(isWanted: ReplicaKey => Boolean): Unit = {
    replicas.keySet.removeIf(k => !isWanted(k)); ()
  }

  /** Drops the holdings and replicas of runs that have ended. Of the other runs, drops the holdings
    * of workers that now run elsewhere or no longer exist. A holding that a task has the lease of
    * stays.
    *
    * @param settledOf
    *   returns the newest settled version of a run; None if the run has ended
    * @param standsBy
    *   whether this executor is to stand by for a worker: it may take long to make the standby
    * @param isDraining
    *   whether this executor is to be emptied: what is no worker's newest state goes at once
    * @param takenAt
    *   the version of its source that a step on demand takes; None while it is announced only
    */
  def keepRuns(
      settledOf: String => Option[Long],
      standsBy: WorkerId => Boolean = _ => false,
      isDraining: Boolean = false,
      takenAt: ReplicaKey => Option[Long] = _ => None
  ): Unit = {
    this.standsBy = standsBy
    val behind = if (isDraining) math.min(1, behindMax) else behindMax
    val toLend = exports.toLend(takenAt)
    slots.forEach { (worker, slot) =>
      def isLent(here: Holding) =
        (here.head ++ Some(here.base)).exists(name => toLend(worker -> name.version))
      val isWanted = settledOf(worker.store.run).exists { settled =>
        standsBy(worker) || slot.peek.keepsUp(settled, behind) || isLent(slot.peek)
      }
      if (!isWanted && slot.retireIf(_ => true)) slots.remove(worker, slot)
    }
    def hasEnded(store: StoreKey) = settledOf(store.run).isEmpty
    exports.keep(key => !hasEnded(key.store))
    replicas.keySet.removeIf(key => hasEnded(key.store))
    keyReaders.keySet.removeIf(hasEnded(_))
    ()
  }

  /** Drops the standbys that nobody uses now, and which no task has committed to. Returns the
    * workers.
    */
  def dropStandbys(): Vector[WorkerId] = slots.asScala.iterator.collect {
    case (worker, slot)
        if isStandby(worker) && slot.retireIf(h => h.head.isEmpty && h.bins.nonEmpty) &&
          slots.remove(worker, slot) =>
      worker
  }.toVector

  /** Measures the heap that all holdings and replicas take, and what was handed out of them. */
  def measure(): Unit = budget.measure {
    var sum = 0L
    slots.values.forEach(slot => sum += slot.peek.heapBytes)
    replicas.values.forEach(replica => sum += replica.heapBytes)
    handedOut.forEach(user => sum += user.heapBytes)
    sum + exports.heapBytes
  }

  /** Spills pages if the budget is tight: those of standbys first, then the holding's. Called after
    * the worker's commit, with its lease. Looks at no log if there is nothing to do. Throws
    * SpillException.
    */
  def keepWithin(holding: Holding): Unit = {
    if (budget.isTight) { measure(); spillStandbys() }
    if (budget.isTight || budget.bytesOnDisk > 0) holding.spill(budget.share(holding.heapBytes))
    ()
  }

  /** An attempt of the thread that calls this, which is no task. What it writes to disk is
    * progress, too. A wait for others who write is none: it costs no more than reading the state
    * again.
    *
    * @param id
    *   no task attempt has it
    */
  private[megaphone] def background(id: Long, progress: () => Long = () => 0): Attempt = {
    val thread = Thread.currentThread
    val spilled = budget.spilledHere
    new Attempt(
      id,
      () => thread.isAlive,
      isTask = false,
      () => progress() + spilled()
    )
  }

  /** Spills pages of the standbys that nobody uses now, until the budget is not tight any more. */
  private def spillStandbys(): Unit = {
    val attempt = background(Registry.NoTask)
    def spillSome(lease: Lease): Boolean =
      try lease.holding.spill(budget.excessAtOnce) > 0
      finally lease.release()
    for ((worker, slot) <- slots.asScala if isStandby(worker))
      while (budget.isTight && slot.tryAcquire(attempt).exists(spillSome)) {}
  }

  def holdingsCount: Int = slots.size

  /** The workers whose holdings here are so. */
  def workers(isSo: Holding => Boolean): Vector[WorkerId] =
    slots.asScala.iterator.collect { case (worker, slot) if isSo(slot.peek) => worker }.toVector

  /** The number of holdings of each run, and that of its exports. */
  def holdingsByRun: Map[String, Int] = byRun(slots.keySet.asScala.iterator.map(_.store.run))
  def exportsByRun: Map[String, Int] = byRun(exports.runs)
  private def byRun(runs: Iterator[String]) = runs.toVector.groupMapReduce(identity)(_ => 1)(_ + _)
  def replicasCount: Int = replicas.size
  def runs: Set[String] = slots.keySet.asScala.map(_.store.run).toSet
  def isEmpty: Boolean =
    slots.isEmpty && replicas.isEmpty && exports.isEmpty && handedOut.isEmpty
}

private object Registry {

  /** No task attempt has this id. */
  val NoTask = -3L
}
