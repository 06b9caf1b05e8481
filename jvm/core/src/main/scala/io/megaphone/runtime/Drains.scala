// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.pace.Clock

/** An executor's way out, of the state of all queries.
  *
  * @param workers
  *   workers that are still to leave, of all queries
  * @param reason
  *   what it waits for, in a sentence; None if it waits for nothing
  */
final case class Drain(
    executor: String,
    status: Drain.Status,
    workers: Int,
    seconds: Long,
    reason: Option[String]
)

object Drain {
  sealed abstract class Status(val name: String)

  /** State is still there that somebody needs. */
  case object Draining extends Status("draining")

  /** Nobody needs anything that is there: it may go. */
  case object Drained extends Status("drained")

  /** Its time was up: what was left is read from the checkpoint. */
  case object Overdue extends Status("overdue")

  /** The executor died before it was empty: what was left is read from the checkpoint. */
  case object Lost extends Status("lost")

  /** It keeps its workers. */
  case object Cancelled extends Status("cancelled")

  /** What an executor still has of a query.
    *
    * @param name
    *   how the query is called
    * @param workers
    *   workers that are placed there, or ran there last
    * @param isIdle
    *   whether the query runs no batch, and has not planned one for a while
    * @param areElsewhere
    *   whether other executors have all state of these workers
    * @param standbysLacking
    *   workers that have fewer standbys elsewhere than they should, and a standby here
    * @param states
    *   workers whose state the executor keeps
    */
  final case class OfQuery(
      name: String,
      workers: Int,
      isIdle: Boolean,
      areElsewhere: Boolean,
      standbysLacking: Int,
      states: Int
  ) {

    /** Workers that are still to leave. Those of an idle query leave with its next batch: it is
      * enough that their state is elsewhere.
      */
    def toLeave: Int = if (isIdle && areElsewhere) 0 else workers

    /** Of an idle query, states stay until its next batch. */
    def statesInUse: Int = if (isIdle && areElsewhere) 0 else states
  }

  /** What an executor has, as it reported.
    *
    * @param obeyed
    *   the number of the orders that the report was made after
    */
  final case class OfExecutor(
      queries: Vector[OfQuery],
      replicas: Int,
      blocks: Int,
      obeyed: Long
  )
}

/** The executors that are to be emptied. An executor may go if
  *   1. no query has a worker placed there, or ran one there last; of a query that is idle it is
  *      enough that all state of these workers is elsewhere;
  *   1. after that it has heard of newer orders, and then reports no state, replica or block;
  *   1. no worker lacks a standby elsewhere that it has there.
  *
  * It holds at the moment that it is asked for: until Spark is told to give the executor no more
  * tasks, one may bring state back.
  *
  * Threads: any.
  *
  * @param nextCounter
  *   draws a number greater than those of all orders before
  */
final class Drains(nextCounter: () => Long, clock: Clock = Clock.System) {
  private final class Entry(val since: Long) {
    var deadline: Option[Long] = None // in nanoseconds
    var emptySince: Option[Long] = None // number of orders
    var wasDrained = false // when it was last looked at
    var end: Option[Drain.Status] = None
  }
  private val entries = mutable.LinkedHashMap.empty[String, Entry]

  /** Begins to empty an executor; called again, goes on. A deadline replaces the one before. */
  def start(executor: String, timeoutMs: Option[Long]): Unit = synchronized {
    val entry = entries.get(executor).filter(_.end.isEmpty).getOrElse {
      entries.remove(executor)
      val tooMany = entries.count(_._2.end.isDefined) - Drains.EndedMax
      entries.iterator
        .filter(_._2.end.isDefined)
        .map(_._1)
        .take(tooMany)
        .toVector
        .foreach(entries.remove)
      entries.getOrElseUpdate(executor, new Entry(clock.nanoTime))
    }
    timeoutMs.foreach(ms => entry.deadline = Some(clock.nanoTime + ms * 1000000L))
  }

  /** Keeps an executor after all. Returns whether it was to be emptied. */
  def cancel(executor: String): Boolean = end(executor, Drain.Cancelled)

  /** An executor is gone. If it was drained when it was last looked at, it stays so. */
  def lost(executor: String): Unit = synchronized {
    val wasDrained = entries.get(executor).exists(_.wasDrained)
    end(executor, if (wasDrained) Drain.Drained else Drain.Lost)
    ()
  }

  /** The executors that are to be emptied, whether their time is up or not. */
  def open: Set[String] = of(_ => true)

  private def end(executor: String, how: Drain.Status): Boolean = synchronized {
    val open = entries.get(executor).filter(_.end.isEmpty)
    open.foreach(_.end = Some(how))
    open.isDefined
  }

  /** The executors that are to be emptied and run tasks meanwhile. */
  def draining: Set[String] = of(!_.isDefined)

  /** Those whose time is up: workers leave them at once. */
  def overdue: Set[String] = of(_.isDefined)

  private def of(chosen: Option[Drain.Status] => Boolean): Set[String] = synchronized {
    entries.iterator.collect {
      case (executor, entry) if entry.end.isEmpty && chosen(overdueNow(entry)) => executor
    }.toSet
  }

  private def overdueNow(entry: Entry): Option[Drain.Status] =
    entry.deadline.filter(_ <= clock.nanoTime).map(_ => Drain.Overdue)

  /** All drains of the application, in the order in which they began.
    *
    * @param look
    *   looks at what an executor has
    */
  def all(look: String => Drain.OfExecutor): Vector[Drain] =
    synchronized(entries.keys.toVector).flatMap(get(_, look))

  /** The drain of an executor; None if there was none. */
  def get(executor: String, look: String => Drain.OfExecutor): Option[Drain] = {
    val isOpen = synchronized(entries.get(executor).exists(_.end.isEmpty))
    val found = if (isOpen) look(executor) else Drains.Nothing // takes locks of its own
    synchronized(entries.get(executor).map(of(executor, _, found)))
  }

  private def of(executor: String, entry: Entry, has: Drain.OfExecutor): Drain = {
    val seconds = (clock.nanoTime - entry.since) / 1000000000L
    val workers = has.queries.iterator.map(_.toLeave).sum
    val blocking = has.queries.filter(q => q.toLeave > 0 || q.standbysLacking > 0)
    if (workers > 0) entry.emptySince = None
    else if (entry.emptySince.isEmpty) entry.emptySince = Some(nextCounter())
    val states = has.queries.iterator.map(_.statesInUse).sum
    val reason =
      if (blocking.nonEmpty) Some(blocking.map(Drains.describe).mkString(" "))
      else if (entry.emptySince.exists(has.obeyed < _)) Some("It has not reported since.")
      else if (states + has.replicas + has.blocks > 0)
        Some(
          s"It still has the state of $states workers, ${has.replicas} replicas and " +
            s"${has.blocks} blocks."
        )
      else None
    val status = entry.end
      .orElse(Option.when(reason.isEmpty)(Drain.Drained))
      .orElse(overdueNow(entry))
      .getOrElse(Drain.Draining)
    entry.wasDrained = status == Drain.Drained
    Drain(executor, status, workers, seconds, reason.filter(_ => entry.end.isEmpty))
  }
}

private object Drains {

  /** Drains that have ended and are kept. */
  val EndedMax = 1000
  val Nothing: Drain.OfExecutor = Drain.OfExecutor(Vector.empty, 0, 0, 0)

  def describe(query: Drain.OfQuery): String =
    if (query.toLeave > 0) {
      val idle = if (query.isIdle) ", which plans no batches" else ""
      s"Query ${query.name}$idle: ${query.toLeave} workers are still there."
    } else
      s"Query ${query.name}: ${query.standbysLacking} workers have no standby elsewhere yet."
}
