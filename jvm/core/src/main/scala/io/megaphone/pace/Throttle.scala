// SPDX-License-Identifier: Apache-2.0
package io.megaphone.pace

import scala.collection.mutable

/** Makes the threads of an executor that copy for a run keep to its rate.
  *
  * A thread copies a piece, says so with `pass`, and waits there until the rate has paid for it. A
  * large piece is paid for in portions, so that each batch has its part of it. The waiting ends
  * early if the last task ends and the rate is higher then, or if the run is over. A run with no
  * rate does not wait.
  *
  * Threads: any. A thread that waits can be interrupted.
  */
final class Throttle(clock: Clock) {
  private val debts = mutable.Map.empty[String, Debt]
  private val withTasks = mutable.Set.empty[Thread]

  /** By run: the bytes that have passed while tasks ran. */
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
    withTasks -= Thread.currentThread
    if (withTasks.isEmpty) notifyAll()
  }

  /** The calling thread has copied some bytes for a run. Returns when it may go on. Throws
    * InterruptedException.
    *
    * @param hurries
    *   whether it keeps to no rate from now on
    * @param begins
    *   is told of each portion before it is paid for
    */
  def pass(
      run: String,
      bytes: Long,
      hurries: () => Boolean = () => false,
      begins: Long => Unit = _ => ()
  ): Unit = Throttle.portions(bytes).foreach { portion =>
    begins(portion)
    if (!hurries()) passPortion(run, portion)
  }

  private def passPortion(run: String, bytes: Long): Unit = synchronized {
    settle()
    debts.get(run).foreach { mine =>
      mine.bytes += bytes
      if (withTasks.nonEmpty) mine.besideTasks += bytes
      while (debts.get(run).contains(mine) && mine.remainingNanos > 0) {
        clock.waitOn(this, mine.remainingNanos)
        settle()
      }
    }
  }

  /** Whether copies for a run keep to no rate now. */
  def isFree(run: String): Boolean = synchronized(debts.get(run).forall(_.bytesPerSecond == 0))

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

    def bytesPerSecond: Long = if (withTasks.isEmpty) rate.alone else rate.besideTasks

    def settle(now: Long): Unit = {
      bytes =
        if (bytesPerSecond == 0) 0
        else math.max(0, bytes - (now - at) / Throttle.NanosPerSecond * bytesPerSecond)
      at = now
    }

    def remainingNanos: Long =
      if (bytesPerSecond == 0) 0
      else math.ceil(bytes / bytesPerSecond * Throttle.NanosPerSecond).toLong
  }
}

object Throttle {
  private val NanosPerSecond = 1e9
  private val PortionBytes = 256L << 10

  /** A piece, in portions that are paid for one after the other. */
  private def portions(bytes: Long): Iterator[Long] =
    Iterator.iterate(bytes)(_ - PortionBytes).takeWhile(_ > 0).map(math.min(_, PortionBytes))
}
