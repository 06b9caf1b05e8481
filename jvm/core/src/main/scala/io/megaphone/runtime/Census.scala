// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap

import io.megaphone.format.WorkerId
import io.megaphone.pace.Clock

/** Decides which commits tell the size of each bin. A batch has thousands of bins, so most commits
  * do not: of a worker's commits one in so many seconds does, and each with which bins came or
  * went.
  *
  * Threads: any.
  */
final class Census(clock: Clock = Clock.System, intervalMs: Long = Census.IntervalMs) {
  private val told = new ConcurrentHashMap[WorkerId, java.lang.Long]() // in nanoseconds

  /** Whether a commit is to tell the sizes; if so, the next is to come after the interval. */
  def isDue(worker: WorkerId, hasMoved: Boolean): Boolean = {
    val (now, last) = (clock.nanoTime, told.get(worker))
    val due = hasMoved || last == null || now - last >= intervalMs * 1000000L
    if (due) told.put(worker, now)
    due
  }

  /** Forgets the workers of runs that are over. */
  def keepRuns(isLive: String => Boolean): Unit = {
    told.keySet.removeIf(worker => !isLive(worker.store.run))
    ()
  }
}

object Census {
  private val IntervalMs = 10000L
}
