// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.executor

import java.util.concurrent.{
  ConcurrentHashMap, Executor, ExecutorService, Future, TimeoutException, TimeUnit
}

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.BlockStore

import io.megaphone.format.ExecutorAddress
import io.megaphone.runtime.FaultPoints
import io.megaphone.spark.wire.BlockBytes
import io.megaphone.transfer.{BlockName, Peers}

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
  */
final class BlockPeers(
    blocks: BlockStore,
    transport: PeerTransport,
    threads: ExecutorService,
    removals: Executor,
    faults: FaultPoints
) extends Peers
    with Logging {
  private val published = ConcurrentHashMap.newKeySet[BlockName]()

  override def address: ExecutorAddress = transport.address

  /** Makes a block available to other executors. Called twice: the second call does nothing, unless
    * the first one failed. Throws what Spark's block manager throws.
    */
  override def publish(block: BlockName, bytes: Array[Byte]): Unit =
    if (published.add(block))
      try {
        faults.published(bytes).foreach(blocks.put(block.toString, _))
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
        catch { // thrown from here, it would end the executor
          case NonFatal(e) => logInfo(s"$block could not be removed: $e")
        }
      }
    }
  }

  override def keep(isWanted: BlockName => Boolean): Unit =
    remove(published.asScala.iterator.filterNot(isWanted).toVector)

  override def publishedCount: Int = published.size

  override def pull(
      block: BlockName,
      address: ExecutorAddress,
      deadlineMs: Long
  ): Option[Array[Byte]] = pullAll(Seq(block -> address), deadlineMs, Long.MaxValue).come.get(block)

  /** Each executor may send an equal share of `bytesMax`. If no block is as small as that, one is
    * pulled alone.
    */
  override def pullAll(
      wanted: Seq[(BlockName, ExecutorAddress)],
      deadlineMs: Long,
      bytesMax: Long
  ): Peers.Answers = {
    val deadline = System.nanoTime + TimeUnit.MILLISECONDS.toNanos(deadlineMs)
    val asked = wanted.groupMap(_._2)(_._1).toVector
    val fetching = new Fetching(deadline)
    val share = bytesMax / math.max(1, asked.size)
    val pulls = asked.map { case (address, blocks) =>
      (address, blocks.size, threads.submit[Unit](() => fetching(blocks, address, share)))
    }
    try
      pulls.foreach { case (address, count, pull) =>
        await(pull, deadline) { why =>
          logInfo(
            s"Of $count blocks not all came from $address within $deadlineMs ms ($why); the " +
              "checkpoint is read instead of those that did not."
          )
        }
      }
    finally pulls.foreach(_._3.cancel(true)) // of those that have ended nothing happens
    val answers = fetching.answers
    wanted.find { case (block, _) => answers.later(block) } match {
      case Some((block, address)) if answers.come.isEmpty =>
        val alone = pull(block, address, TimeUnit.NANOSECONDS.toMillis(leftOf(deadline)))
        Peers.Answers(alone.map(block -> _).toMap, answers.later - block)
      case _ => answers
    }
  }

  /** What comes of requests until a deadline. Threads: any. */
  private final class Fetching(deadline: Long) {
    private val come = new ConcurrentHashMap[BlockName, Array[Byte]]()
    private val later = ConcurrentHashMap.newKeySet[BlockName]()

    def answers: Peers.Answers = Peers.Answers(come.asScala.toMap, later.asScala.toSet)

    /** Asks an executor for blocks, and again for those that its answer has no room for, until so
      * many bytes have come.
      */
    def apply(asked: Seq[BlockName], address: ExecutorAddress, bytesMax: Long): Unit = {
      faults.at(FaultPoints.BlockPulled)
      @tailrec
      def go(left: Seq[BlockName], room: Long): Unit = if (left.nonEmpty) {
        val request = BlockBytes.ask(left.map(_.toString), room)
        val answer =
          if (address == transport.address) BlockBytes.answer(request)(blocks.get)
          else transport.ask(address, request, TimeUnit.NANOSECONDS.toMillis(leftOf(deadline)))
        val found = BlockBytes.blocks(answer)
        for ((block, Some(bytes)) <- left.zip(found)) come.put(block, bytes)
        if (found.isEmpty) left.foreach(later.add)
        else go(left.drop(found.size), room - found.flatten.map(_.length.toLong).sum)
      }
      go(asked, bytesMax)
    }
  }

  private def leftOf(deadline: Long): Long = math.max(0, deadline - System.nanoTime)

  private def await(pull: Future[Unit], deadline: Long)(failed: String => Unit): Unit =
    try pull.get(leftOf(deadline), TimeUnit.NANOSECONDS)
    catch {
      case e: InterruptedException => throw e
      case _: TimeoutException => failed("no answer")
      case NonFatal(e) => failed(Option(e.getCause).getOrElse(e).toString)
    }
}
