// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import java.util.concurrent.{Callable, ExecutionException, Executors, ThreadFactory}

import scala.jdk.CollectionConverters._

/** Does pieces of work at the same time, as far as there are threads for them.
  *
  * Threads: any.
  */
trait Parallel {

  /** How many pieces of work it does at the same time. */
  def width: Int

  /** Does all pieces and returns their results, in order. If a piece throws, throws the same once
    * no piece runs any more.
    */
  def apply[A](pieces: Seq[() => A]): Seq[A]

  /** The same for pieces that wait for files rather than work: more of them at the same time. They
    * may be done again.
    */
  def waiting[A](pieces: Seq[() => A]): Seq[A] = apply(pieces)
}

object Parallel {

  /** Requests of one piece of work that a store or name node has at the same time, at least. */
  private val WaitingAtOnce = 16

  /** For pieces that each make a request of a store or a name node, and little else. */
  val Requests: Parallel = new OnNewThreads(WaitingAtOnce)

  /** One after the other, in the caller's thread. */
  object Sequential extends Parallel {
    override def width: Int = 1
    override def apply[A](pieces: Seq[() => A]): Seq[A] = pieces.map(_.apply())
  }

  /** Makes threads of a name that do not keep their process from ending.
    *
    * @param priority
    *   of Java; on Linux a JVM obeys it with `-XX:ThreadPriorityPolicy=1` only
    */
  def daemons(name: String, priority: Int = Thread.NORM_PRIORITY): ThreadFactory = { task =>
    val thread = new Thread(task, name)
    thread.setDaemon(true)
    thread.setPriority(priority)
    thread
  }

  /** On threads of each call's own: a call that hangs keeps no thread from others. A piece may call
    * it again.
    */
  final class OnNewThreads(override val width: Int) extends Parallel {
    override def apply[A](pieces: Seq[() => A]): Seq[A] = onThreads(width, pieces)(throw _)
    override def waiting[A](pieces: Seq[() => A]): Seq[A] =
      onThreads(math.max(width, WaitingAtOnce), pieces)(_ => Sequential(pieces))

    /** @param unable
      *   does the pieces if there is no thread to be had
      */
    private def onThreads[A](threadsMax: Int, pieces: Seq[() => A])(
        unable: OutOfMemoryError => Seq[A]
    ): Seq[A] =
      if (pieces.size < 2) Sequential(pieces)
      else {
        val tasks = pieces.map(p => (() => p()): Callable[A])
        val count = math.min(pieces.size, threadsMax)
        val threads = Executors.newFixedThreadPool(count, daemons("megaphone-parallel"))
        try {
          val done =
            try Right(threads.invokeAll(tasks.asJava))
            catch { case e: OutOfMemoryError => Left(e) }
          done.fold(unable, _.asScala.map(_.get).toSeq)
        } catch { case e: ExecutionException => throw e.getCause }
        finally { threads.shutdownNow(); () }
      }
  }
}
