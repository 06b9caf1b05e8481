// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

/** Ends the use of a task's state by other threads with the task. All stores of a task have one
  * guard, for an operation on one may bring rows of another.
  *
  * Spark serves the state calls of Python's `transformWithState` on a thread of its own, which it
  * interrupts when the task is killed and does not wait for. Nor does it wait for the threads that
  * feed the script of a TRANSFORM clause or the process of `RDD.pipe`. The task's own thread takes
  * no lock: it and another one take turns while the task runs. Where they do not, every thread
  * takes the lock.
  *
  * Threads: any.
  *
  * @param taskThread
  *   the task's own; None if nobody knows it, or if others are at work on the state beside it: then
  *   every thread takes the lock
  * @param failed
  *   is told why an operation of another thread failed: of that, Spark sends Python the text alone
  */
private[provider] final class TaskGuard(
    val taskThread: Option[Thread],
    failed: Throwable => Unit = _ => ()
) {
  private val lock = new ReentrantLock
  @volatile private var endedAt = Option.empty[Long] // nanoseconds

  /** Whether other threads' operations are refused. */
  def hasEnded: Boolean = endedAt.nonEmpty

  /** Runs an operation of whichever thread. Throws as `run` does. */
  def runOf[A](operation: () => A): A =
    if (taskThread.contains(Thread.currentThread)) operation() else run(operation)

  /** Runs an operation of another thread. Throws IllegalStateException after the task has ended. */
  def run[A](operation: () => A): A = {
    lock.lock()
    try {
      if (hasEnded)
        throw new IllegalStateException("The task that opened this state store has ended.")
      try operation()
      catch { case e: Throwable => failed(e); throw e }
    } finally lock.unlock()
  }

  /** Runs something of the task's thread while no operation of another thread is at work. Returns
    * false, and does not run it, if one is at work for longer than `waitMs`: from now, or from the
    * end on.
    *
    * The interrupt of a killed task ends neither the wait nor the body: a lease that is not given
    * back keeps the holding on the executor for ever. It is set again afterwards.
    */
  def alone(waitMs: Long)(body: => Unit): Boolean = {
    val deadline = endedAt.getOrElse(System.nanoTime) + TimeUnit.MILLISECONDS.toNanos(waitMs)
    var isInterrupted = Thread.interrupted()
    def acquire(): Boolean =
      try lock.tryLock(deadline - System.nanoTime, TimeUnit.NANOSECONDS)
      catch { case _: InterruptedException => isInterrupted = true; acquire() }
    try {
      val isAlone = acquire()
      if (isAlone)
        try body
        finally lock.unlock()
      isAlone
    } finally if (isInterrupted) Thread.currentThread.interrupt()
  }

  /** From now on, other threads' operations are refused. Called twice: does nothing more. */
  def end(): Unit = if (!hasEnded) endedAt = Some(System.nanoTime)
}
