// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.format.WorkerId

/** The newest commits that tasks reported, for the tables that users see.
  *
  * Threads: any.
  *
  * @param entriesMax
  *   number of commits that are kept; the oldest are dropped first
  */
final class RecentCommits(entriesMax: Int = 20000) {
  private val entries = mutable.Queue.empty[Committed]

  def add(c: Committed): Unit = synchronized {
    entries.enqueue(c)
    if (entries.size > entriesMax) { entries.dequeue(); () }
  }

  /** In the order of their arrival. */
  def all: Vector[Committed] = synchronized(entries.toVector)

  /** The newest commit of each worker. */
  def newest: Map[WorkerId, Committed] = all.iterator.map(c => c.worker -> c).toMap
}
