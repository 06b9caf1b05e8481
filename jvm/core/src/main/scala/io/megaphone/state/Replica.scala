// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import io.megaphone.format.StateName

/** A replica of another executor's bins. The executor that keeps it brings it forward in the
  * background, and a task takes its bins; neither waits for the other's files without a limit.
  *
  * Threads: any.
  */
final class Replica(holding: Holding) {
  private val lock = new ReentrantLock
  @volatile private var reached = holding.base

  /** The name that it has reached. Does not wait for who uses the replica. */
  def base: StateName = reached
  def heapBytes: Long = holding.heapBytes

  /** Uses the replica while no other thread does. Waits for another thread. Throws
    * InterruptedException.
    */
  def alone[A](use: Holding => A): A = {
    lock.lockInterruptibly()
    used(use)
  }

  /** The same. Returns None if another thread keeps the replica for longer than `waitMs`. */
  def alone[A](waitMs: Long)(use: Holding => A): Option[A] =
    if (!lock.tryLock(waitMs, TimeUnit.MILLISECONDS)) None else Some(used(use))

  private def used[A](use: Holding => A): A =
    try use(holding)
    finally { reached = holding.base; lock.unlock() }
}
