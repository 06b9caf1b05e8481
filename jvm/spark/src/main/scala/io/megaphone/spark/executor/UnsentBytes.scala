// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{TimeoutException, TimeUnit}

import io.netty.buffer.Unpooled
import io.netty.channel.{Channel, ChannelFuture}

/** The bytes of answers that askers have not taken yet. Netty keeps them on the heap, as many as it
  * is given.
  *
  * Threads: any.
  */
final class UnsentBytes(max: UnsentBytes.Max) {
  private var bytes = 0L

  /** Waits until there is room. Throws TimeoutException if there is none in time. */
  def awaitRoom(): Unit = synchronized {
    val deadline = System.nanoTime + TimeUnit.MILLISECONDS.toNanos(max.waitMs)
    while (bytes >= max.bytes) {
      val leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime)
      if (leftMs <= 0)
        throw new TimeoutException(
          s"$bytes bytes of answers wait for executors that are slow to take them."
        )
      wait(leftMs)
    }
  }

  /** Sends so many bytes, which count until the asker has taken them or the channel is closed. */
  def sending(channel: Channel, size: Long)(send: => Unit): Unit = {
    change(size)
    try {
      send
      // The transport does not tell when an answer has left. Nothing at all, written behind it
      // and past all encoders, leaves right after it.
      channel.eventLoop.execute { () =>
        val left = channel.pipeline.firstContext.writeAndFlush(Unpooled.EMPTY_BUFFER)
        left.addListener((_: ChannelFuture) => change(-size))
        ()
      }
    } catch { case e: Throwable => change(-size); throw e }
  }

  private def change(by: Long): Unit = synchronized { bytes += by; notifyAll() }
}

object UnsentBytes {

  /** Once `bytes` bytes of answers wait, a request waits up to `waitMs`, and is then refused. */
  final case class Max(bytes: Long, waitMs: Long = 5000)
}
