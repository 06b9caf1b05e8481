// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import java.util.concurrent.{
  Callable, ExecutionException, Executors, ExecutorService, ThreadFactory
}

import scala.jdk.CollectionConverters._

/** Does pieces of work at the same time, as far as there are threads for them.
  *
  * Threads: any.
  */
trait Parallel {

  /** How many pieces it does at the same time. */
  def width: Int

  /** Does all pieces and returns their results, in order. If a piece throws, throws the same once
    * no piece runs any more.
    */
  def apply[A](pieces: Seq[() => A]): Seq[A]
}

object Parallel {

  /** One after the other, in the caller's thread. */
  object Sequential extends Parallel {
    override def width: Int = 1
    override def apply[A](pieces: Seq[() => A]): Seq[A] = pieces.map(_.apply())
  }

  /** Makes threads of a name that do not keep their process from ending. */
  def daemons(name: String): ThreadFactory = { task =>
    val thread = new Thread(task, name)
    thread.setDaemon(true)
    thread
  }

  /** On threads of each call's own: a call that hangs keeps no thread from others. */
  final class OnNewThreads(override val width: Int) extends Parallel {
    override def apply[A](pieces: Seq[() => A]): Seq[A] =
      if (pieces.size < 2) Sequential(pieces)
      else {
        val threads = Executors.newFixedThreadPool(math.min(pieces.size, width))
        try new OnThreads(threads, width)(pieces)
        finally { threads.shutdownNow(); () }
      }
  }

  /** On the threads of a pool. A piece must not call it again: it could wait for a thread for ever.
    *
    * @param width
    *   how many threads the pool has
    */
  final class OnThreads(threads: ExecutorService, override val width: Int) extends Parallel {
    override def apply[A](pieces: Seq[() => A]): Seq[A] =
      if (pieces.size < 2) Sequential(pieces)
      else
        try
          threads
            .invokeAll(pieces.map(p => (() => p()): Callable[A]).asJava)
            .asScala
            .map(_.get)
            .toSeq
        catch { case e: ExecutionException => throw e.getCause }
  }
}
