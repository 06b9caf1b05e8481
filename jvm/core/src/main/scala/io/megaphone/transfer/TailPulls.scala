// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.util.concurrent.TimeUnit

import scala.annotation.tailrec

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.ExecutorAddress
import io.megaphone.state.Registry
import io.megaphone.transfer.TransferBlocks.Part

/** Pulls tails for many replicas at once, under one deadline, in rounds of bounded size.
  *   1. The first parts of all tails are pulled at once, so an executor is asked once for all of
  *      its tails, or a few times if they are large. One that hangs costs one deadline, however
  *      many workers it had.
  *   1. Of each tail that has more parts, these are pulled.
  *   1. Once tails of `tailBytesMax` bytes have come, the others wait for a later round: the caller
  *      applies what has come, and asks again. So a target has no more than that, and one tail
  *      more, in memory.
  *
  * Threads: any.
  */
final class TailPulls(blocks: TransferBlocks, peers: Peers) {
  import TailPulls._

  /** Pulls as many of the tails as there is room for, at least one. A tail that does not come has
    * no part.
    */
  def apply(wanted: Seq[Wanted], deadlineMs: Long): Round[Wanted] = {
    val start = System.nanoTime
    def leftMs = deadlineMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime - start)
    val answers =
      peers.pullAll(wanted.map(w => w.part(0) -> w.address), deadlineMs, blocks.tailBytesMax)
    val (later, asked) = wanted.partition(w => answers.later(w.part(0)))
    val first = asked.map { w =>
      w -> answers.come.get(w.part(0)).map(Part(w.part(0).toString, _)).toVector
    }
    val (ended, begun) = first.partition { case (w, parts) =>
      parts.isEmpty || isWhole(parts, w.bins)
    }
    begun.foldLeft(Round(ended.toMap, later.toSet)) { case (round, (w, parts)) =>
      if (round.tails.nonEmpty && round.bytes + bytesOf(begun) > blocks.tailBytesMax)
        round.without(w)
      else round.and(w, pullOn(w, parts, () => leftMs))
    }
  }

  /** Pulls the parts of a tail that are missing, until one does not come. */
  @tailrec
  private def pullOn(w: Wanted, parts: Vector[Part], leftMs: () => Long): Vector[Part] =
    if (isWhole(parts, w.bins) || leftMs() <= 0) parts
    else {
      val next = w.part(parts.size)
      peers.pull(next, w.address, leftMs()) match {
        case Some(bytes) => pullOn(w, parts :+ Part(next.toString, bytes), leftMs)
        case None => parts
      }
    }

  /** Pulls tails of the duties whose replicas lack just one; of the others nothing is asked. */
  def lackedBy(
      duties: Seq[ReplicaDuty],
      registry: Registry,
      deadlineMs: Long
  ): Round[ReplicaDuty] = {
    val wanted = for {
      duty <- duties
      replica <- registry.replica(duty.key)
      if replica.base.version + 1 == duty.settled.version
      address <- duty.address
    } yield Wanted(duty.block(duty.settled, BlockKind.Tail, 0), address, duty.bins) -> duty
    apply(wanted.map(_._1), deadlineMs).of(wanted.toMap)
  }

  /** Nothing more is pulled for a damaged tail. */
  private def isWhole(tail: Vector[Part], bins: Vector[Int]): Boolean =
    try blocks.isWhole(tail, bins)
    catch { case _: DamagedFileException => true }
}

object TailPulls {

  /** A tail that is wanted.
    *
    * @param block
    *   its first part
    * @param bins
    *   the bins that its parts have together
    */
  final case class Wanted(block: BlockName, address: ExecutorAddress, bins: Vector[Int]) {
    private[transfer] def part(number: Int): BlockName = block.copy(part = number)
  }

  /** What has come in a round.
    *
    * @param tails
    *   of each tail that was asked for all parts, or those that came in time
    * @param later
    *   whose tails there was no room for: they are to be asked for again
    */
  final case class Round[A](
      tails: Map[A, Vector[Part]] = Map.empty[A, Vector[Part]],
      later: Set[A] = Set.empty[A]
  ) {

    /** How many bytes have come. */
    def bytes: Long = bytesOf(tails)

    /** The same round, by what the tails are for. */
    def of[B](purpose: Map[A, B]): Round[B] =
      Round(tails.map { case (one, tail) => purpose(one) -> tail }, later.map(purpose))

    private[transfer] def and(one: A, tail: Vector[Part]) = copy(tails = tails + (one -> tail))
    private[transfer] def without(one: A) = copy(later = later + one)
  }

  private def bytesOf(tails: Iterable[(_, Vector[Part])]): Long =
    tails.iterator.flatMap(_._2).map(_.bytes.length.toLong).sum
}
