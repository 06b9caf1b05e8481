// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import scala.collection.mutable

import io.megaphone.runtime.Committed

/** The last commits that workers told of, for those who look: bounded. Any thread. */
final class RecentCommits(entriesMax: Int = 20000) {
  private val entries = mutable.Queue.empty[Committed]

  def add(c: Committed): Unit = synchronized {
    entries.enqueue(c)
    if (entries.size > entriesMax) { entries.dequeue(); () }
  }

  def all: Vector[Committed] = synchronized(entries.toVector)

  /** The newest commit of each worker of an operator's store. */
  def newest: Map[(Long, String, Int), Committed] =
    all.foldLeft(Map.empty[(Long, String, Int), Committed])((m, c) =>
      m.updated((c.operator, c.store, c.worker), c)
    )
}
