// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.errors.PlanRefusedException
import io.megaphone.pace.Clock

/** The executors that are to be emptied. An executor may go if
  *   1. no query has a worker placed there, or ran one there last; of a query that is idle it is
  *      enough that all state of these workers is elsewhere;
  *   1. after that it has heard of newer orders, and then reports no state, export, replica or
  *      block;
  *   1. no worker lacks a standby elsewhere that it has there, that was known to have all of its
  *      state when the emptying began, and that others have room for.
  *
  * It holds at the moment that it is asked for: until Spark is told to give the executor no more
  * tasks, one may bring state back. See [[Releases]] for how one is ended.
  *
  * Threads: any.
  *
  * @param nextCounter
  *   draws a number greater than those of all orders before
  */
final class Drains(nextCounter: () => Long, clock: Clock = Clock.System) {
  private final class Entry(val sinceNanos: Long) {
    var cause: Drain.Cause = Drain.Asked
    var deadlineNanos: Option[Long] = None
    var release = false
    var emptySince: Option[Long] = None // number of orders
    var wasDrained = false // when it was last looked at
    var hadOnlyStrayed = false // then
    var isCordoned = false
    var waitsFor: Option[String] = None // why it is not cordoned, or not ended, yet
    var end: Option[Drain.Status] = None
    def isToCordon: Boolean = release && !isCordoned
    def isOverdue: Boolean = deadlineNanos.exists(_ <= clock.nanoTime)
  }
  private val entries = mutable.LinkedHashMap.empty[String, Entry]

  /** Begins to empty an executor; called again, goes on. A deadline replaces the one before.
    *
    * @param release
    *   whether it is ended once it is empty; once asked for, it stays so
    */
  def start(executor: String, timeoutMs: Option[Long], release: Boolean = false): Unit =
    synchronized {
      val entry = opened(executor)
      timeoutMs.foreach(ms => entry.deadlineNanos = Some(after(ms)))
      entry.release ||= release
    }

  /** Spark says that an executor goes. Called again, nothing changes.
    *
    * @param timeoutMs
    *   when it ends at the latest, if that is known
    */
  def decommissioned(executor: String, timeoutMs: Option[Long]): Unit = synchronized {
    val entry = opened(executor)
    if (entry.cause == Drain.Asked && !entry.isCordoned) {
      entry.cause = Drain.Decommissioned
      entry.deadlineNanos = (entry.deadlineNanos ++ timeoutMs.map(after)).minOption
    }
  }

  private def after(ms: Long): Long = clock.nanoTime + ms * 1000000L

  private def opened(executor: String): Entry =
    entries.get(executor).filter(_.end.isEmpty).getOrElse {
      entries.remove(executor)
      val tooMany = entries.count(_._2.end.isDefined) - Drains.EndedMax
      entries.iterator
        .filter(_._2.end.isDefined)
        .map(_._1)
        .take(tooMany)
        .toVector
        .foreach(entries.remove)
      val entry = new Entry(clock.nanoTime)
      entries(executor) = entry
      entry
    }

  /** Keeps an executor after all. Throws PlanRefusedException if it is not to be emptied, or if
    * Spark gives it no more tasks.
    */
  def cancel(executor: String): Unit = synchronized {
    val entry =
      openEntry(executor).getOrElse(throw PlanRefusedException.notDraining(executor))
    if (entry.isCordoned || entry.cause == Drain.Decommissioned)
      throw PlanRefusedException.drainTooLate(executor)
    entry.end = Some(Drain.Cancelled)
  }

  /** An executor is gone. If it was drained when it was last looked at, it stays so. Returns
    * whether it counts as released.
    */
  def lost(executor: String): Boolean = synchronized {
    openEntry(executor).exists { entry =>
      val isReleased = entry.isCordoned || entry.release && entry.wasDrained
      entry.end = Some(
        if (isReleased) Drain.Released
        else if (entry.wasDrained) Drain.Drained
        else Drain.Lost
      )
      isReleased
    }
  }

  private def openEntry(executor: String) = entries.get(executor).filter(_.end.isEmpty)

  /** The executors that are to be emptied, whether their time is up or not. */
  def open: Set[String] = of(_ => true)

  /** The executors that are to be emptied and run tasks meanwhile. */
  def draining: Set[String] = of(!_.isOverdue)

  /** Those whose time is up: workers leave them at once. */
  def overdue: Set[String] = of(_.isOverdue)

  /** Those that are to be ended, and get no more tasks. */
  def cordoned: Set[String] = of(_.isCordoned)

  private def of(chosen: Entry => Boolean): Set[String] = synchronized {
    entries.iterator.collect {
      case (executor, entry) if entry.end.isEmpty && chosen(entry) => executor
    }.toSet
  }

  /** Those that are to be ended, get tasks, and are empty or have no time left; and those that
    * would be empty if Spark gave them no more tasks.
    */
  def toCordon(look: String => Drain.OfExecutor): Vector[String] = {
    of(_.isToCordon).foreach(get(_, look))
    def mayGo(entry: Entry) = entry.wasDrained || entry.isOverdue || entry.hadOnlyStrayed
    of(entry => entry.isToCordon && mayGo(entry)).toVector.sorted
  }

  /** From now on, an executor counts as one that gets no more tasks. Returns false if it is to be
    * kept meanwhile: then it must not be cordoned.
    */
  def cordon(executor: String): Boolean = synchronized {
    val entry = openEntry(executor).filter(_.release)
    entry.foreach(_.isCordoned = true)
    entry.isDefined
  }

  /** It gets tasks after all. */
  def uncordon(executor: String): Unit =
    synchronized(openEntry(executor).foreach(_.isCordoned = false))

  /** An executor cannot be cordoned yet, or ended, for a reason. */
  def waits(executor: String, reason: String): Unit =
    synchronized(openEntry(executor).foreach(_.waitsFor = Some(reason)))

  /** All drains of the application, in the order in which they began. Looks at those that are open,
    * as `get` does.
    *
    * @param look
    *   looks at what an executor has
    */
  def all(look: String => Drain.OfExecutor): Vector[Drain] =
    synchronized(entries.keys.toVector).flatMap(get(_, look))

  /** The drain of an executor; None if there was none. What the look finds is kept: since when the
    * executor has no workers, and whether it was drained when it was last looked at, which decides
    * what its loss is.
    */
  def get(executor: String, look: String => Drain.OfExecutor): Option[Drain] = {
    val isOpen = synchronized(openEntry(executor).isDefined)
    val found = if (isOpen) look(executor) else Drains.Nothing // takes locks of its own
    synchronized(entries.get(executor).map(lookedAt(executor, _, found)))
  }

  private def lookedAt(executor: String, entry: Entry, has: Drain.OfExecutor): Drain = {
    val seconds = (clock.nanoTime - entry.sinceNanos) / 1000000000L
    val workers = has.queries.iterator.map(_.toLeave).sum
    if (workers > 0) entry.emptySince = None
    else if (entry.emptySince.isEmpty) entry.emptySince = Some(nextCounter())
    val left = Drains.left(has, entry.emptySince)
    val status = entry.end.getOrElse {
      if (entry.isCordoned) Drain.Cordoned
      else if (left.isEmpty) Drain.Drained
      else if (entry.isOverdue) Drain.Overdue
      else Drain.Draining
    }
    entry.wasDrained = status == Drain.Drained
    entry.hadOnlyStrayed = workers > 0 && has.queries.forall(_.hasOnlyStrayed)
    val waitsFor = entry.waitsFor.filter(_ => entry.release && status != Drain.Draining)
    val reason = waitsFor.orElse(left).filter(_ => entry.end.isEmpty)
    Drain(executor, entry.cause, status, workers, seconds, reason, entry.release)
  }
}

private object Drains {

  /** Drains that have ended and are kept. */
  val EndedMax = 1000
  val Nothing: Drain.OfExecutor = Drain.OfExecutor(Vector.empty, 0, 0, 0)

  /** What an executor still has that somebody may need; None if it may go.
    *
    * @param emptySince
    *   the number of the first orders after its workers had left; None before that
    */
  def left(has: Drain.OfExecutor, emptySince: Option[Long]): Option[String] = {
    val blocking = has.queries.filter(q => q.toLeave > 0 || q.standbysLacking > 0)
    val states = has.queries.iterator.map(_.statesInUse).sum
    val exports = has.queries.iterator.map(_.exports).sum
    if (blocking.nonEmpty) Some(blocking.map(describe).mkString(" "))
    else if (emptySince.exists(has.obeyed < _)) Some("It has not reported since.")
    else
      Option.when(states + exports + has.replicas + has.blocks > 0)(
        s"It still has the state of $states workers, ${has.replicas} replicas, " +
          s"${has.blocks} blocks and $exports exports of steps on demand."
      )
  }

  private def describe(query: Drain.OfQuery): String = {
    val held =
      if (query.toLeave > 0) {
        val idle = if (query.isIdle) ", which plans no batches" else ""
        val strayed = Option.when(query.strayed > 0)(
          s", ${query.strayed} of which are placed elsewhere, and ran there last"
        )
        s"Query ${query.name}$idle: ${query.toLeave} workers are still there${strayed.mkString}."
      } else
        s"Query ${query.name}: ${query.standbysLacking} workers have no standby elsewhere yet."
    val full =
      query.withoutRoom.map(e => s" Executor $e has no room for some, or does not keep up.")
    held + full.mkString
  }
}
