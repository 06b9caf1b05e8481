// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.format.WorkerId

/** The commits that tasks reported, for the tables that users see: the newest of each worker, and
  * the newest of those that bins arrived with. Ordinary commits, thousands a batch, do not displace
  * those.
  *
  * Threads: any.
  *
  * @param movesMax
  *   number of commits with arrivals that are kept; the oldest are dropped first
  */
final class RecentCommits(movesMax: Int = 20000) {
  private val moved = mutable.Queue.empty[Committed]
  private val newestOf = mutable.Map.empty[WorkerId, Committed]

  def add(c: Committed): Unit = synchronized {
    newestOf(c.worker) = c
    if (c.arrivals.isAny) {
      moved.enqueue(c)
      if (moved.size > movesMax) { moved.dequeue(); () }
    }
  }

  /** Those that bins arrived with, in the order in which they were reported. */
  def moves: Vector[Committed] = synchronized(moved.toVector)

  /** The newest commit of each worker. */
  def newest: Map[WorkerId, Committed] = synchronized(newestOf.toMap)
}
