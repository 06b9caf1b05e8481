// SPDX-License-Identifier: Apache-2.0
package io.megaphone.pace

/** Time, and how to wait for it. */
trait Clock {
  def nanoTime: Long

  /** Waits, up to so many nanoseconds, to be notified. The caller has locked the monitor. */
  def waitOn(monitor: Object, nanos: Long): Unit

  /** Waits for about so many milliseconds. Throws InterruptedException. */
  final def pause(ms: Long): Unit = {
    val nobody = new Object // notifies
    nobody.synchronized(waitOn(nobody, math.max(1L, ms) * 1000000L)) // 0 is for ever
  }
}

object Clock {

  /** The machine's. */
  object System extends Clock {
    override def nanoTime: Long = java.lang.System.nanoTime
    override def waitOn(monitor: Object, nanos: Long): Unit =
      monitor.wait(nanos / 1000000, (nanos % 1000000).toInt)
  }
}
