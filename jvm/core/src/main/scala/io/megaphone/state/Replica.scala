// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.locks.ReentrantLock

import io.megaphone.format.StateName

/** A replica of another executor's bins. The executor that keeps it brings it forward in the
  * background, and a task takes its bins; neither waits for the other's files without a limit. A
  * large one is made slice by slice: until it is whole, nobody takes it.
  *
  * Threads: any.
  *
  * @param made
  *   the bytes that came to make it
  * @param toCome
  *   the bins that it is to get yet
  */
final class Replica(holding: Holding, made: Traffic, toCome: Vector[Int] = Vector.empty) {
  private val lock = new ReentrantLock
  @volatile private var reached = holding.base
  private val came = new AtomicReference(made)
  @volatile private var lacking = toCome
  @volatile private var copiedSoFar = 0L

  /** The name that it has reached. Does not wait for who uses the replica. */
  def base: StateName = reached
  def heapBytes: Long = holding.heapBytes

  /** The bins that it lacks. */
  def lacked: Vector[Int] = lacking
  def isWhole: Boolean = lacking.isEmpty

  /** The bytes of records that were copied to make it, as `copied` was told last. */
  def bytesCopied: Long = copiedSoFar
  def copied(bytes: Long): Unit = copiedSoFar = bytes

  /** The bytes that have come to make it and to bring it forward. */
  def traffic: Traffic = came.get

  /** Counts bytes that came to bring it forward. */
  def count(more: Traffic): Unit = { came.accumulateAndGet(more, _ + _); () }

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
    finally {
      reached = holding.base
      if (lacking.nonEmpty) lacking = lacking.filterNot(holding.has)
      lock.unlock()
    }
}

/** How far a replica is: its version, and how many bins it lacks. */
final case class Reached(replica: ReplicaKey, version: Long, binsLacking: Int = 0) {
  def isWhole: Boolean = binsLacking == 0
}
