// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import java.io.IOException

import io.megaphone.errors.{DetachedLeaseException, LeaseTimeoutException}
import io.megaphone.format.WorkerId
import io.megaphone.pace.Clock

/** A task attempt, and whether it still runs.
  *
  * @param id
  *   unique in the application; a later attempt has a greater one
  * @param isAlive
  *   returns false once the attempt was killed or has ended
  * @param isTask
  *   false for who keeps a standby, or takes bins of it: a task of the worker waits for it as long
  *   as it gets on, and a moment longer
  * @param progress
  *   of who is no task: another number once it has got on. Any thread may ask
  */
final class Attempt(
    val id: Long,
    val isAlive: () => Boolean,
    val isTask: Boolean = true,
    val progress: () => Long = () => 0
)

/** The right of one task attempt to write one worker's holding (invariant I6).
  *
  * Threads: the attempt's; a newer attempt may detach the lease at any time. Called twice: `end`,
  * `abandon` and `release` do nothing.
  */
final class Lease private[megaphone] (
    slot: Slot,
    val attempt: Attempt,
    private[megaphone] var current: Holding
) {
  @volatile private[megaphone] var isDetached = false

  def holding: Holding = current

  /** Throws DetachedLeaseException if the attempt has ended, or a newer one has taken the lease:
    * what this attempt then writes to memory, nobody will read.
    */
  def check(): Unit = if (isDetached) throw new DetachedLeaseException(attempt.id)

  /** Replaces the holding by an empty one, to fill from files. Throws DetachedLeaseException. */
  def renew(): Holding = slot.renew(this)

  /** Uses the holding of a standby, and gives the lease back. If a file fails or the thread is
    * interrupted, the holding is at the name that it had reached before, and stays; after any other
    * exception it is dropped. Throws what `use` throws.
    */
  def forStandby[A](use: => A): A =
    try {
      val used = use
      release()
      used
    } catch {
      case e @ (_: IOException | _: InterruptedException) => release(); throw e
      case e: Throwable => abandon(); throw e
    }

  /** Ends the attempt: undoes its uncommitted records, and gives the lease back. Only if no thread
    * of the attempt uses the holding any more.
    */
  def end(): Unit = slot.end(this)

  /** Ends the attempt and drops the holding: a thread of the attempt may still write to it, and
    * nobody will read that. The next attempt begins with files.
    */
  def abandon(): Unit = slot.abandon(this)

  /** Gives the lease back; the holding keeps what was committed. Nothing happens after the lease
    * was detached.
    */
  def release(): Unit = slot.release(this)
}

/** The place of one worker's holding on one executor, and its lease.
  *
  * Threads: any.
  *
  * @param clock
  *   how long tasks wait for the lease
  */
final private[megaphone] class Slot(worker: WorkerId, binsCount: Int, clock: Clock) {
  private var holding = new Holding(worker.worker, binsCount)
  private var owner: Option[Lease] = None
  private var isRetired = false
  private var tasks = 0 // of the worker, that wait for the lease
  private var borrowers = 0 // that wait for it

  /** The current holding, even if another attempt has its lease. */
  def peek: Holding = synchronized(holding)

  /** Ends the slot's life if its holding is so, and no attempt has its lease. Returns whether it
    * has ended.
    */
  def retireIf(isSo: Holding => Boolean): Boolean = synchronized {
    isRetired ||= owner.isEmpty && isSo(holding)
    isRetired
  }

  /** Takes the lease. Waits while another running attempt has it, because two actions of one
    * `foreachBatch` may run the same version at once. Detaches an attempt that was killed, and one
    * that keeps a standby and does not get on, as with a file that hangs: its holding is then void,
    * and all of it would have to be read again. Returns None if the slot has retired. After
    * `waitMs` throws LeaseTimeoutException, or detaches who is no task.
    */
  def acquire(attempt: Attempt, waitMs: Long): Option[Lease] = synchronized {
    tasks += 1
    try acquired(attempt, waitMs)
    finally tasks -= 1
  }

  private def acquired(attempt: Attempt, waitMs: Long): Option[Lease] = {
    val deadline = clock.nanoTime + waitMs * 1000000L
    def leftMs = (deadline - clock.nanoTime) / 1000000L
    var seen = Option.empty[(Lease, Long)] // a keeper, and how far it was
    var looksInVain = 0 // Not time: while the whole process stood still, it could not get on.
    def hasStopped(keeper: Lease) = {
      val now = Some(keeper -> keeper.attempt.progress())
      looksInVain = if (seen == now) looksInVain + 1 else 0
      seen = now
      looksInVain >= Slot.KeeperWaitMs / Slot.PollMs
    }
    def isWaitedFor(o: Lease) = o.attempt.id != attempt.id && o.attempt.isAlive() &&
      (o.attempt.isTask || leftMs > 0 && !hasStopped(o))
    while (owner.exists(isWaitedFor)) {
      if (leftMs <= 0 && owner.exists(_.attempt.isTask))
        throw new LeaseTimeoutException(
          worker.store.toString,
          worker.worker,
          waitMs,
          owner.get.attempt.id
        )
      // Nobody reports a kill, so look again now and then.
      clock.waitOn(this, math.max(1, math.min(leftMs, Slot.PollMs)) * 1000000L)
    }
    owner match {
      case _ if isRetired => None
      case same @ Some(o) if o.attempt.id == attempt.id => same
      case previous =>
        previous.foreach { o =>
          o.isDetached = true; holding = new Holding(worker.worker, binsCount)
        }
        owner = Some(new Lease(this, attempt, holding))
        owner
    }
  }

  /** Takes the lease if no attempt has it, alive or not, and none waits for it: waits for nobody,
    * and detaches nobody.
    */
  def tryAcquire(attempt: Attempt): Option[Lease] = synchronized {
    Option.when(isFree && borrowers == 0)(leaseOf(attempt))
  }

  /** Takes the lease once nobody has it and no task of the worker waits for it. Waits a moment, at
    * most until the holding is where it is wanted, and detaches nobody.
    */
  def borrow(
      attempt: Attempt,
      waitMs: Long,
      isThere: Holding => Boolean
  ): Option[Lease] = synchronized {
    val deadline = System.nanoTime + waitMs * 1000000L
    borrowers += 1
    try
      while (!isRetired && !isFree && !isThere(holding) && System.nanoTime < deadline)
        wait(Slot.PollMs)
    finally borrowers -= 1
    Option.when(isFree)(leaseOf(attempt))
  }

  private def isFree = owner.isEmpty && tasks == 0 && !isRetired

  private def leaseOf(attempt: Attempt): Lease = {
    val lease = new Lease(this, attempt, holding)
    owner = Some(lease)
    lease
  }

  def renew(lease: Lease): Holding = synchronized {
    lease.check()
    holding = new Holding(worker.worker, binsCount)
    lease.current = holding
    holding
  }

  /** Does nothing if the lease was detached: the holding is then another attempt's. */
  def end(lease: Lease): Unit = synchronized {
    if (owner.contains(lease)) {
      lease.isDetached = true
      try lease.current.abort()
      finally release(lease)
    }
  }

  def abandon(lease: Lease): Unit = synchronized {
    if (owner.contains(lease)) {
      lease.isDetached = true
      holding = new Holding(worker.worker, binsCount)
      release(lease)
    }
  }

  def release(lease: Lease): Unit = synchronized {
    if (owner.contains(lease)) {
      if (holding.isVoid) holding = new Holding(worker.worker, binsCount)
      owner = None
      notifyAll()
    }
  }
}

private object Slot {
  val PollMs = 50L

  /** How long a task waits for a standby's keeper that does not get on: so long it looks at it. */
  val KeeperWaitMs = 1000L
}
