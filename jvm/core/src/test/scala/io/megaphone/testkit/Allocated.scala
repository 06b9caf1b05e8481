// SPDX-License-Identifier: Apache-2.0
package io.megaphone.testkit

import java.lang.management.ManagementFactory

/** What some code costs in memory, whatever else the machine does meanwhile. */
object Allocated {
  private val threads =
    ManagementFactory.getThreadMXBean.asInstanceOf[com.sun.management.ThreadMXBean]

  /** The bytes that the calling thread allocates in `body`. */
  def bytesOf(body: => Unit): Long = {
    val before = threads.getCurrentThreadAllocatedBytes
    body
    threads.getCurrentThreadAllocatedBytes - before
  }
}
