// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{FutureTask, TimeoutException, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.netty.channel.embedded.EmbeddedChannel

/** Answers count until they have left or their channel is closed. */
final class UnsentBytesSuite extends AnyFunSuite {
  private val Large = 1L << 20

  /** Sends an answer of which the channel's thread has not heard yet. */
  private def send(unsent: UnsentBytes, channel: EmbeddedChannel): Unit =
    unsent.send(channel, Large)(())

  test("An answer that has left counts no more.") {
    val unsent = new UnsentBytes(UnsentBytes.Max(Large, waitMs = 0))
    val channel = new EmbeddedChannel
    send(unsent, channel)
    intercept[TimeoutException](send(unsent, channel))
    channel.runPendingTasks()
    send(unsent, channel)
  }

  test("An answer to an executor that died while it was made counts no more.") {
    val unsent = new UnsentBytes(UnsentBytes.Max(Large, waitMs = 0))
    val dead = new EmbeddedChannel
    dead.close()
    dead.runPendingTasks()
    assert(dead.pipeline.firstContext == null)
    send(unsent, dead)
    dead.runPendingTasks()
    send(unsent, new EmbeddedChannel)
  }

  test("An answer for which there is no room waits until there is, or its time is over.") {
    val patient = new UnsentBytes(UnsentBytes.Max(Large, waitMs = 600000))
    val channel = new EmbeddedChannel
    send(patient, channel)
    val sent = new FutureTask[Unit](() => send(patient, new EmbeddedChannel), ())
    val waits = new Thread(sent)
    waits.setDaemon(true)
    waits.start()
    while (waits.getState != Thread.State.TIMED_WAITING) Thread.onSpinWait()
    channel.runPendingTasks()
    sent.get(60, TimeUnit.SECONDS)
    val impatient = new UnsentBytes(UnsentBytes.Max(Large, waitMs = 20))
    send(impatient, channel)
    intercept[TimeoutException](send(impatient, channel))
  }

  test("An answer that cannot be written counts no more.") {
    val unsent = new UnsentBytes(UnsentBytes.Max(Large, waitMs = 0))
    val channel = new EmbeddedChannel
    intercept[IllegalStateException] {
      unsent.send(channel, Large)(throw new IllegalStateException("not written"))
    }
    send(unsent, channel)
  }
}
