// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.concurrent.atomic.AtomicBoolean

import io.megaphone.pace.Clock

/** Whether a query is idle: it runs no batch, and has planned none for half a minute. It stays so
  * until it plans one.
  *
  * Whoever asks gets what the last look at files has told, because a store that hangs must hold up
  * nobody: the thread that asks looks after the executors of all queries.
  *
  * Threads: any.
  *
  * @param isCommitted
  *   looks in files whether the newest batch is committed; it is asked once a second at most, by
  *   one thread at a time
  * @param inBackground
  *   runs work on another thread
  */
private final class Idleness(
    isCommitted: => Boolean,
    inBackground: (=> Unit) => Boolean,
    clock: Clock = Clock.System
) {
  import Idleness._

  @volatile private var plannedNanos = clock.nanoTime
  @volatile private var lookedNanos = clock.nanoTime
  @volatile private var idleSince = Option.empty[Long] // the batch planned then was the last
  private val isLooking = new AtomicBoolean

  /** A batch is planned. */
  def planned(): Unit = plannedNanos = clock.nanoTime

  /** Does not wait. */
  def isIdle: Boolean = {
    val (now, planned) = (clock.nanoTime, plannedNanos)
    val mayBe = now - planned > AfterNanos
    val isKnown = idleSince.contains(planned)
    if (mayBe && !isKnown && now - lookedNanos >= LookNanos) look(planned)
    mayBe && isKnown
  }

  private def look(planned: Long): Unit = if (isLooking.compareAndSet(false, true)) {
    lookedNanos = clock.nanoTime
    val hasBegun = inBackground {
      try if (isCommitted) idleSince = Some(planned)
      finally isLooking.set(false)
    }
    if (!hasBegun) isLooking.set(false)
  }
}

private object Idleness {
  val AfterNanos: Long = 30L * 1000000000L
  private val LookNanos = 1000000000L
}
