// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{TimeoutException, TimeUnit}

import scala.util.control.NonFatal

import io.netty.buffer.Unpooled
import io.netty.channel.{Channel, ChannelFuture, ChannelOutboundInvoker}
import io.netty.handler.ssl.SslHandler

/** The bytes of answers that askers have not taken yet. Netty keeps them on the heap, as many as it
  * is given.
  *
  * Threads: any.
  */
final class UnsentBytes(max: UnsentBytes.Max) {
  import UnsentBytes._

  private var bytes = 0L
  private var waiting = 0

  /** Sends an answer of so many bytes, which count until the asker has taken them or is gone. Waits
    * until there is room, but for small answers. Throws TimeoutException if there is none in time,
    * or if too many wait already: the other threads are for those who take their answers.
    */
  def send(channel: Channel, size: Long)(write: => Unit): Unit = {
    if (size > SmallBytes) takeRoom(size) else change(size)
    try {
      write
      channel.eventLoop.execute(() => follow(channel, size))
    } catch { case e: Throwable => change(-size); throw e }
  }

  private def takeRoom(size: Long): Unit = synchronized {
    val deadline = System.nanoTime + TimeUnit.MILLISECONDS.toNanos(max.waitMs)
    waiting += 1
    try
      while (bytes > 0 && bytes + size > max.bytes) {
        val leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime)
        if (leftMs <= 0 || waiting > max.waiting)
          throw new TimeoutException(
            s"$bytes bytes of answers wait for executors that are slow to take them."
          )
        wait(leftMs)
      }
    finally waiting -= 1
    bytes += size
  }

  /** Has the bytes counted down when what was written before, by the same thread, has left. The
    * transport does not tell. A buffer of no bytes, written behind it, leaves right after it.
    */
  private def follow(channel: Channel, size: Long): Unit =
    try {
      // Past the encoders, which would encrypt it; TLS has a queue of its own, so behind that.
      val path: ChannelOutboundInvoker =
        if (channel.pipeline.get(classOf[SslHandler]) != null) channel
        else Option(channel.pipeline.firstContext).getOrElse(channel) // none: it is closed
      path.writeAndFlush(Unpooled.EMPTY_BUFFER).addListener((_: ChannelFuture) => change(-size))
      ()
    } catch { case NonFatal(_) => change(-size) }

  private def change(by: Long): Unit = synchronized { bytes += by; notifyAll() }
}

object UnsentBytes {
  private val SmallBytes = 64 << 10

  /** Once `bytes` bytes of answers wait, up to `waiting` more answers wait up to `waitMs` each;
    * they and all others are refused then.
    */
  final case class Max(bytes: Long, waitMs: Long = 5000, waiting: Int = 2)
}
