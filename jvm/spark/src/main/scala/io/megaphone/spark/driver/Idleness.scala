// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import io.megaphone.pace.Clock

/** Whether a query is idle: it runs no batch, and has planned none for half a minute. It stays so
  * until it plans one.
  *
  * Threads: any.
  *
  * @param isCommitted
  *   looks in files whether the newest batch is committed; it is asked once a second at most
  */
private final class Idleness(isCommitted: => Boolean, clock: Clock = Clock.System) {
  import Idleness._

  @volatile private var plannedNanos = clock.nanoTime
  @volatile private var lookedNanos = clock.nanoTime
  @volatile private var idleSince = Option.empty[Long] // the batch planned then was the last

  /** A batch is planned. */
  def planned(): Unit = plannedNanos = clock.nanoTime

  def isIdle: Boolean = {
    val (now, planned) = (clock.nanoTime, plannedNanos)
    if (
      now - planned > AfterNanos && !idleSince.contains(planned) &&
      now - lookedNanos >= LookNanos
    ) {
      lookedNanos = now
      if (isCommitted) idleSince = Some(planned)
    }
    now - planned > AfterNanos && idleSince.contains(planned)
  }
}

private object Idleness {
  private val AfterNanos = 30L * 1000000000L
  private val LookNanos = 1000000000L
}
