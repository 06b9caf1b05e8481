// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.{Future, Semaphore, TimeUnit}

import io.megaphone.pace.Clock

/** A registry's clock that lets a task which waits for a lease look at it as often as a test says,
  * however slow the threads are.
  *
  * @param time
  *   what it shows, in nanoseconds
  */
final private[runtime] class Looks(time: () => Long = () => 0) extends Clock {
  private val (allowed, waits) = (new Semaphore(0), new Semaphore(0))
  @volatile private var areFree = false

  override def nanoTime: Long = time()

  /** Waits until the task may look again. The monitor is free meanwhile. */
  override def waitOn(monitor: Object, nanos: Long): Unit = {
    waits.release()
    do monitor.wait(1)
    while (!areFree && !allowed.tryAcquire())
  }

  /** Lets the task look so many times. Returns once it has waited as often since the last call, or
    * has ended.
    */
  def allow(times: Int, of: Future[_]): Unit = {
    allowed.release(times)
    while (!of.isDone && !waits.tryAcquire(times, 10, TimeUnit.MILLISECONDS)) {}
  }

  /** Lets it look without end. */
  def allowAll(): Unit = areFree = true
}
