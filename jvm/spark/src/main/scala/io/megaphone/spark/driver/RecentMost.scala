// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.megaphone.pace.Clock

/** The greatest of the numbers that were added lately.
  *
  * Threads: one.
  *
  * @param spanMs
  *   how long ago the oldest was added that counts
  */
private final class RecentMost(spanMs: Long, clock: Clock = Clock.System) {
  private val spanNanos = TimeUnit.MILLISECONDS.toNanos(spanMs)
  private val added = mutable.Queue.empty[(Long, Int)] // when, and what
  private var since = clock.nanoTime // from then on, numbers were added without a pause

  def add(number: Int): Unit = {
    val now = clock.nanoTime
    if (added.lastOption.forall { case (at, _) => now - at > RecentMost.PauseNanos }) since = now
    added.dequeueWhile { case (at, _) => now - at > spanNanos }
    added.enqueue(now -> number)
    ()
  }

  /** None before numbers have been added for the whole time, without a pause of some seconds. */
  def most: Option[Int] = {
    val now = clock.nanoTime
    val isWhole =
      now - since >= spanNanos && added.lastOption.exists(now - _._1 <= RecentMost.PauseNanos)
    Option.when(isWhole)(added.iterator.map(_._2).max)
  }
}

private object RecentMost {
  private val PauseNanos: Long = TimeUnit.SECONDS.toNanos(2)
}
