// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.{Future, Semaphore, TimeUnit}

/** Lets a task that waits for a lease look at it as often as a test says, however slow the threads
  * are.
  */
final private[runtime] class Looks {
  private val (allowed, waits) = (new Semaphore(0), new Semaphore(0))
  @volatile private var areFree = false

  /** For the registry: the task waits until it may look again. The monitor is free meanwhile. */
  val waitOn: (Object, Long) => Unit = (monitor, _) => {
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
