// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import io.megaphone.format.ExecutorAddress
import io.megaphone.pace.Clock
import io.megaphone.transfer.{BlockName, Coming, Heard, Peers, PushedFile, Question}

/** The other executors, of which one that has let a question or a pull time out is asked nothing
  * for a minute.
  *
  * An executor that is frozen, or cut off in silence, costs each who asks it the whole deadline:
  * all stores of all tasks, and who brings the rest, bin by bin. The files have what it has. ''It
  * was slow only:'' more is read from files than need be. A pull tells only if it has waited as
  * long as for an answer: a tail, or what is left of a deadline, may have less time than a
  * collection of garbage takes.
  *
  * Threads: any, at any time.
  */
private[runtime] final class ImpatientPeers(peers: Peers, clock: Clock) extends Peers {
  import ImpatientPeers._

  private val silentSince = new ConcurrentHashMap[String, java.lang.Long]() // by executor

  override def ask(question: Question, at: ExecutorAddress, deadlineMs: Long): Heard =
    asking(question, at, deadlineMs)()

  override def asking(question: Question, at: ExecutorAddress, deadlineMs: Long): () => Heard =
    if (isSilent(at)) () => Heard.Nothing
    else {
      val come = peers.asking(question, at, deadlineMs)
      () => {
        val heard = come()
        if (heard.isLate && deadlineMs >= PatienceMs && at != address) silent(at)
        heard
      }
    }

  /** A block that is not there is told at once, so only a time-out takes the whole deadline. */
  override def pulling(
      block: BlockName,
      address: ExecutorAddress,
      deadlineMs: Long
  ): Coming[Array[Byte]] = if (isSilent(address)) Coming.now(None)
  else {
    val begun = clock.nanoTime
    val coming = peers.pulling(block, address, deadlineMs)
    val beginMs = msSince(begun)
    new Coming[Array[Byte]] {
      override def await(): Option[Array[Byte]] = {
        val from = clock.nanoTime
        val found = coming.await()
        // What the caller did meanwhile may have taken long, while the answer was there.
        val hasWaited = beginMs + msSince(from) >= PatienceMs
        if (found.isEmpty && hasWaited && msSince(begun) >= math.max(deadlineMs, AnswerMs))
          silent(address)
        found
      }
      override def cancel(): Unit = coming.cancel()
    }
  }

  /** Asks those that are not silent. That one is, only `pull` tells: these deadlines are short. */
  override def pullAll(blocks: Seq[(BlockName, ExecutorAddress)], deadlineMs: Long)(
      come: (BlockName, Array[Byte]) => Unit
  ): Unit = peers.pullAll(blocks.filterNot { case (_, at) => isSilent(at) }, deadlineMs)(come)

  private def msSince(begun: Long) = TimeUnit.NANOSECONDS.toMillis(clock.nanoTime - begun)

  private def silent(at: ExecutorAddress): Unit = { silentSince.put(at.id, clock.nanoTime); () }

  private def isSilent(at: ExecutorAddress) = Option(silentSince.get(at.id)).exists { since =>
    val isYet = clock.nanoTime - since < SilenceNanos
    if (!isYet) silentSince.remove(at.id, since)
    isYet
  }

  override def address: ExecutorAddress = peers.address
  override def push(file: PushedFile, to: ExecutorAddress): Unit = peers.push(file, to)
  override def publish(block: BlockName, bytes: Array[Byte]): Unit = peers.publish(block, bytes)
  override def remove(blocks: Seq[BlockName]): Unit = peers.remove(blocks)
  override def keep(isWanted: BlockName => Boolean): Unit = peers.keep(isWanted)
  override def publishedCount: Int = peers.publishedCount
}

private[runtime] object ImpatientPeers {

  /** How long one waits for the source of a step on demand at most: longer than an answer takes
    * over a slow link, or than a collection of garbage.
    */
  val AnswerMs = 10000L

  /** What is left of a deadline may be too short for any answer. */
  private val PatienceMs = 1000L
  private val SilenceNanos = TimeUnit.MINUTES.toNanos(1)
}
