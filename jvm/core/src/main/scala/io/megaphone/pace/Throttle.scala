// SPDX-License-Identifier: Apache-2.0
package io.megaphone.pace

import scala.collection.mutable

/** Makes the threads of an executor that copy for a run keep to its rate.
  *
  * A thread copies a piece, says so with `pass`, and waits there until the rate has paid for it.
  * The waiting ends early if the executor gets free and the rate is higher then, or if the run is
  * over. A run with no rate does not wait.
  *
  * An executor is free when it has run no task for `restNanos`. The short gaps between the tasks of
  * batches that follow each other do not count: what is copied in them delays the next task.
  *
  * Threads: any. A thread that waits can be interrupted.
  */
final class Throttle(clock: Clock, restNanos: Long = Throttle.RestNanos) {
  private val debts = mutable.Map.empty[String, Debt]
  private val withTasks = mutable.Set.empty[Thread]
  private var freeFrom = clock.nanoTime // unless a task begins before

  /** By run: the bytes that have passed while the executor was not free. */
  def besideTasks: Map[String, Long] = synchronized {
    debts.iterator.map { case (run, debt) => run -> debt.besideTasks }.toMap
  }

  /** Sets the rate of each run; a run that is not named has none. */
  def keep(rates: Map[String, CopyRate]): Unit = synchronized {
    settle()
    debts.filterInPlace((run, _) => rates.contains(run))
    rates.foreach { case (run, rate) => debts.getOrElseUpdate(run, new Debt).rate = rate }
    notifyAll()
  }

  /** The calling thread begins a task. */
  def taskBegins(): Unit = synchronized { settle(); withTasks += Thread.currentThread; () }

  /** The calling thread has ended its task, if it began one. */
  def taskEnds(): Unit = synchronized {
    settle()
    if (withTasks.remove(Thread.currentThread) && withTasks.isEmpty) {
      freeFrom = clock.nanoTime + restNanos
      notifyAll() // who waits need not wait longer than until then
    }
  }

  /** The calling thread has copied some bytes for a run. Returns when it may go on. Throws
    * InterruptedException.
    */
  def pass(run: String, bytes: Long): Unit = synchronized {
    settle()
    debts.get(run).foreach { mine =>
      mine.bytes += bytes
      if (!mine.isFree) mine.besideTasks += bytes
      while (debts.get(run).contains(mine) && mine.remainingNanos > 0) {
        clock.waitOn(this, mine.remainingNanos)
        settle()
      }
    }
  }

  /** Waits so long, or until the executor is free, the run is over, or its copies are not paced.
    * Throws InterruptedException.
    */
  def rest(run: String, nanos: Long): Unit = synchronized {
    val until = clock.nanoTime + nanos
    settle()
    while (debts.get(run).exists(_.isPaced) && until > clock.nanoTime) {
      clock.waitOn(this, until - clock.nanoTime)
      settle()
    }
  }

  private def settle(): Unit = {
    val now = clock.nanoTime
    debts.valuesIterator.foreach(_.settle(now))
  }

  /** What has been copied and is not paid for yet. */
  final private class Debt {
    var bytes = 0.0
    var besideTasks = 0L
    var rate: CopyRate = CopyRate.Unlimited
    private var at = clock.nanoTime

    def isPaced: Boolean = bytesPerSecond > 0

    def isFree: Boolean = withTasks.isEmpty && at >= freeFrom

    def settle(now: Long): Unit = {
      if (withTasks.isEmpty && at < freeFrom && freeFrom < now) pay(freeFrom)
      pay(now)
    }

    /** How long a thread has to wait at most before it looks again. */
    def remainingNanos: Long = {
      val rest = if (withTasks.isEmpty && !isFree) freeFrom - at else Long.MaxValue
      if (bytesPerSecond == 0) 0
      else math.min(rest, math.ceil(bytes / bytesPerSecond * Throttle.NanosPerSecond).toLong)
    }

    private def bytesPerSecond = if (isFree) rate.alone else rate.besideTasks

    private def pay(until: Long): Unit = {
      val paid = (until - at) / Throttle.NanosPerSecond * bytesPerSecond
      bytes = if (bytesPerSecond == 0) 0 else math.max(0, bytes - paid)
      at = until
    }
  }
}

object Throttle {
  private val NanosPerSecond = 1e9
  private val RestNanos = 100L * 1000 * 1000
}

/** Time, and how to wait for it. */
trait Clock {
  def nanoTime: Long

  /** Waits, up to so many nanoseconds, to be notified. The caller has locked the monitor. */
  def waitOn(monitor: Object, nanos: Long): Unit
}

object Clock {

  /** The machine's. */
  object System extends Clock {
    override def nanoTime: Long = java.lang.System.nanoTime
    override def waitOn(monitor: Object, nanos: Long): Unit =
      monitor.wait(nanos / 1000000, (nanos % 1000000).toInt)
  }
}
