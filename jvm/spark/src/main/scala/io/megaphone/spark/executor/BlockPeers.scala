// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{
  Callable, ConcurrentHashMap, ConcurrentLinkedQueue, ExecutionException, Executor, Future,
  LinkedBlockingQueue, RejectedExecutionException, TimeoutException, TimeUnit
}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong}

import scala.annotation.tailrec
import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.{Failure, Success, Try}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.BlockStore

import io.megaphone.format.ExecutorAddress
import io.megaphone.runtime.FaultPoints
import io.megaphone.spark.wire.{AnswerBytes, PeerBytes}
import io.megaphone.transfer.{Answer, BlockName, Coming, Heard, Peers, PushedFile, Question}

/** The memory of other executors: their blocks, which Spark's block manager keeps, and Spark's
  * transport carries. The driver takes no part. Under memory pressure moves become slower, and
  * nothing fails.
  *
  * Threads: any.
  *
  * @param threads
  *   run the pulls, so that each has its own deadline instead of Spark's network time-out
  * @param removals
  *   remove blocks; it must have a thread for each removal that hangs
  * @param pushers
  *   send files; it must have a thread for each executor that hangs
  * @param answering
  *   answers questions of this executor's own tasks
  * @param pushWaitMs
  *   how long an executor may take until it has a file
  */
final class BlockPeers(
    blocks: BlockStore,
    transport: PeerTransport,
    threads: PeerThreads,
    removals: Executor,
    pushers: Executor,
    faults: FaultPoints,
    answering: Question => Answer = _ => Answer.Gone,
    pushWaitMs: Long = BlockPeers.PushWaitMs
) extends Peers
    with Logging {
  import BlockPeers._

  private val outboxes = new ConcurrentHashMap[ExecutorAddress, Outbox]()
  private val published = ConcurrentHashMap.newKeySet[BlockName]()

  override def address: ExecutorAddress = transport.address

  /** Makes a block available to other executors. Called twice: the second call does nothing, unless
    * the first one failed. Throws what Spark's block manager throws.
    */
  override def publish(block: BlockName, bytes: Array[Byte]): Unit =
    if (published.add(block))
      try {
        faults
          .handedOut(FaultPoints.BlockPublished, bytes)
          .foreach(blocks.put(block.toString, _, isOfLarge = block.part > 0))
        // It may have been removed before it was there.
        if (!published.contains(block)) blocks.remove(block.toString)
      } catch {
        case e: Throwable =>
          published.remove(block)
          blocks.remove(block.toString)
          throw e
      }

  /** Removes blocks. Does not wait for it: Spark removes a block only once nobody reads it, and a
    * disk may hang.
    */
  override def remove(superseded: Seq[BlockName]): Unit = {
    val gone = superseded.filter(published.remove(_))
    gone.foreach { block =>
      removals.execute { () =>
        try blocks.remove(block.toString)
        catch { // thrown from here, it would end the executor: also an OutOfMemoryError
          case e: Throwable => logInfo(s"$block could not be removed: $e")
        }
      }
    }
  }

  override def keep(isWanted: BlockName => Boolean): Unit =
    remove(published.asScala.iterator.filterNot(isWanted).toVector)

  override def publishedCount: Int = published.size

  override def pulling(
      block: BlockName,
      address: ExecutorAddress,
      deadlineMs: Long
  ): Coming[Array[Byte]] = {
    val begun = outcome(new Begun(address, deadlineMs)(fetch(address, Seq(block), _)))
    new Coming[Array[Byte]] {
      override def await(): Option[Array[Byte]] =
        try begun.get.await().headOption.flatten
        catch {
          case e: InterruptedException => throw e
          case e: Throwable if isTimeout(e) => toldLate(address, deadlineMs); None
          case e: ExecutionException => toldMissing(address, e.getCause.toString); None
          case e: Throwable => toldMissing(address, e.toString); None
        }
      override def cancel(): Unit = begun.foreach(_.cancel())
    }
  }

  override def pullAll(wanted: Seq[(BlockName, ExecutorAddress)], deadlineMs: Long)(
      come: (BlockName, Array[Byte]) => Unit
  ): Unit = {
    var deadline = System.nanoTime + TimeUnit.MILLISECONDS.toNanos(deadlineMs)
    val answers = new LinkedBlockingQueue[Arrived]()
    val asked = mutable.Map.empty[ExecutorAddress, Future[_]] // whose answers are still to come
    def ask(address: ExecutorAddress, left: Seq[BlockName]): Unit = {
      val until = deadline
      val pull: Callable[Unit] = () =>
        answers.put(Arrived(address, left, outcome(fetch(address, left, until))))
      outcome(threads.submit(address)(pull)) match {
        case Success(future) => asked(address) = future
        case Failure(e) => toldMissing(address, e.toString)
      }
    }
    @tailrec
    def take(): Unit = if (asked.nonEmpty)
      Option(answers.poll(deadline - System.nanoTime, TimeUnit.NANOSECONDS)) match {
        case None => asked.keys.foreach(toldLate(_, deadlineMs))
        case Some(answer) =>
          asked.remove(answer.from)
          answer.blocks match {
            case Failure(e) => toldMissing(answer.from, e.toString)
            case Success(found) =>
              val before = System.nanoTime
              for ((block, Some(bytes)) <- answer.asked.zip(found)) come(block, bytes)
              deadline += System.nanoTime - before
              val left = answer.asked.drop(math.max(1, found.size))
              if (left.nonEmpty) ask(answer.from, left)
          }
          take()
      }
    try {
      wanted.groupMap(_._2)(_._1).foreach { case (address, blocks) => ask(address, blocks) }
      take()
    } finally asked.values.foreach(_.cancel(true))
  }

  /** Asks an executor for blocks. Returns those that its answer has room for, from the first on, or
    * that they are not there.
    */
  private def fetch(
      from: ExecutorAddress,
      asked: Seq[BlockName],
      deadline: Long
  ): Vector[Option[Array[Byte]]] = {
    faults.at(FaultPoints.BlockPulled)
    val request = PeerBytes.ask(asked.map(_.toString))
    PeerBytes.blocks(
      if (from == transport.address) PeerBytes.answer(request)(blocks.get, _ => (), answering)
      else {
        val leftNanos = math.max(0, deadline - System.nanoTime)
        // Not rounded down: who waits for this thread should be told first.
        transport.ask(from, request, TimeUnit.NANOSECONDS.toMillis(leftNanos) + 1)
      }
    )
  }

  override def ask(question: Question, address: ExecutorAddress, deadlineMs: Long): Heard =
    asking(question, address, deadlineMs)()

  override def asking(
      question: Question,
      address: ExecutorAddress,
      deadlineMs: Long
  ): () => Heard =
    if (address == transport.address)
      () => orUnanswered(question, address)(Some(Heard(answering(question), bytes = 0)))
    else {
      val begun = outcome {
        faults.at(FaultPoints.QuestionAsked)
        faults.handedOut(FaultPoints.QuestionSent, PeerBytes.ask(question)).map { asked =>
          new Begun(address, deadlineMs)(_ => transport.ask(address, asked, deadlineMs))
        }
      }
      () =>
        orUnanswered(question, address) {
          for {
            come <- begun.get
            came <- faults.handedOut(FaultPoints.AnswerCame, come.await())
          } yield Heard(AnswerBytes.decode(came), came.length.toLong)
        }
    }

  private def orUnanswered(question: Question, address: ExecutorAddress)(
      heard: => Option[Heard]
  ): Heard =
    try heard.getOrElse(Heard.Nothing)
    catch {
      case e: InterruptedException => throw e
      case e: Throwable =>
        logInfo(s"$address did not answer about ${question.key}, so the checkpoint is read: $e")
        if (isTimeout(e)) Heard.Late else Heard.Nothing
    }

  /** A request that has begun. Also to find an executor that is gone may take long: who waits is
    * told by a TimeoutException once the deadline since the beginning is over. What has come in
    * time is there, however late it is waited for.
    *
    * @param ask
    *   is told when the deadline is over
    */
  private final class Begun[A](address: ExecutorAddress, deadlineMs: Long)(ask: Long => A) {
    private val until = System.nanoTime + TimeUnit.MILLISECONDS.toNanos(deadlineMs)
    private val asking = threads.submit(address)(() => ask(until))

    def await(): A =
      try asking.get(math.max(0, until - System.nanoTime), TimeUnit.NANOSECONDS)
      finally cancel()
    def cancel(): Unit = { asking.cancel(true); () }
  }

  /** An executor that takes files too slowly does not get some of them. */
  override def push(file: PushedFile, to: ExecutorAddress): Unit =
    outboxes
      .compute(
        to,
        (_, known) => {
          val outbox = if (known == null) new Outbox(to) else known
          outbox.add(file)
          outbox
        }
      )
      .send()

  /** Bytes of files that wait to be sent, to all executors. */
  def waitingBytes: Long = outboxes.values.asScala.iterator.map(_.bytes).sum

  /** The files that wait to be sent to an executor, one after the other. */
  private final class Outbox(to: ExecutorAddress) {
    private val waiting = new ConcurrentLinkedQueue[PushedFile]
    private val size = new AtomicLong
    private val isSending = new AtomicBoolean

    def bytes: Long = size.get

    def add(file: PushedFile): Unit = {
      val added = file.bytes.length.toLong
      if (size.addAndGet(added) <= OutboxBytesMax) waiting.add(file)
      else size.addAndGet(-added)
      ()
    }

    def send(): Unit = if (!waiting.isEmpty && isSending.compareAndSet(false, true))
      try pushers.execute(() => sendAll())
      catch { // the host stops, or there is no thread to be had
        case e @ (_: RejectedExecutionException | _: OutOfMemoryError) =>
          dropAll(e)
          isSending.set(false)
      }

    private def sendAll(): Unit = {
      try
        Iterator.continually(waiting.poll()).takeWhile(_ != null).foreach { file =>
          size.addAndGet(-file.bytes.length.toLong)
          faults
            .handedOut(FaultPoints.FilePushed, PeerBytes.push(file))
            .foreach(transport.ask(to, _, pushWaitMs))
        }
      catch { // also OutOfMemoryError: without them the standby reads the checkpoint
        case e: Throwable => dropAll(e)
      }
      isSending.set(false)
      outboxes.computeIfPresent(to, (_, known) => if (known.waiting.isEmpty) null else known)
      send() // what has come after the last look
    }

    /** An executor that does not answer may be gone: it is not waited for once for each file. */
    private def dropAll(why: Throwable): Unit = {
      val dropped = Iterator
        .continually(waiting.poll())
        .takeWhile(_ != null)
        .map { file =>
          size.addAndGet(-file.bytes.length.toLong)
        }
        .size
      logInfo(s"A file could not be sent to $to, and $dropped that waited are not: $why")
    }
  }

  private def toldLate(from: ExecutorAddress, deadlineMs: Long): Unit =
    toldMissing(from, s"no answer within $deadlineMs ms")

  private def toldMissing(from: ExecutorAddress, why: String): Unit = logInfo(
    s"Not all blocks came from $from ($why); the checkpoint is read instead of those that did not."
  )
}

object BlockPeers {
  val PushWaitMs = 10000L

  /** Bytes of files that may wait to be sent to one executor. */
  private val OutboxBytesMax = 32L << 20

  /** What an executor has answered: the first of the blocks that it was asked for. */
  private final case class Arrived(
      from: ExecutorAddress,
      asked: Seq[BlockName],
      blocks: Try[Vector[Option[Array[Byte]]]]
  )

  /** Whether an answer has not come in its time, to who waits here or to the thread that asks. */
  private def isTimeout(e: Throwable) = e match {
    case e: ExecutionException => e.getCause.isInstanceOf[TimeoutException]
    case other => other.isInstanceOf[TimeoutException]
  }

  /** Also of an OutOfMemoryError, as where no thread can be had: the files have everything. */
  private def outcome[A](work: => A): Try[A] =
    try Success(work)
    catch { case e: Throwable => Failure(e) }
}
