// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import scala.annotation.tailrec

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.ExecutorAddress
import io.megaphone.state.Registry
import io.megaphone.transfer.TransferBlocks.Part

/** Pulls tails for many replicas at once, under one deadline: of each the first part, which is all
  * of it unless it is large. An executor is asked once for all of its tails, and again for what its
  * answer has no room for. One that hangs costs one deadline, however many workers it had, and the
  * others' tails of this pull are used meanwhile.
  *
  * Threads: any.
  */
final class TailPulls(blocks: TransferBlocks, peers: Peers) {
  import TailPulls._

  /** Calls `come` with each first part that comes, and with what it is for. */
  def apply[A](wanted: Seq[(A, Wanted)], deadlineMs: Long)(come: (A, Part) => Unit): Unit = {
    val of = wanted.map { case (purpose, w) => w.block -> purpose }.toMap
    peers.pullAll(wanted.map { case (_, w) => w.block -> w.address }, deadlineMs) {
      (block, bytes) => come(of(block), Part(block.toString, bytes))
    }
  }

  /** Does the same for the duties whose replicas lack just one tail, and no bins; of the others
    * nothing is asked. Returns those duties.
    */
  def lackedBy(duties: Seq[ReplicaDuty], registry: Registry, deadlineMs: Long)(
      come: (ReplicaDuty, Part) => Unit
  ): Seq[ReplicaDuty] = {
    val wanted = for {
      duty <- duties
      replica <- registry.replica(duty.key)
      if replica.isWhole && replica.base.version + 1 == duty.settled.version
      address <- duty.address
    } yield duty -> Wanted(duty.block(duty.settled, BlockKind.Tail, 0), address)
    apply(wanted, deadlineMs)(come)
    wanted.map(_._1)
  }

  /** All parts of a tail whose first part has come, or those that `pull` can get.
    *
    * @param bins
    *   the bins that the parts have together
    * @param pull
    *   pulls a further part
    */
  def partsOf(first: Part, bins: IndexedSeq[Int])(pull: Int => Option[Part]): Vector[Part] = {
    @tailrec
    def go(parts: Vector[Part]): Vector[Part] =
      if (isWhole(parts, bins)) parts
      else
        pull(parts.size) match {
          case Some(next) => go(parts :+ next)
          case None => parts
        }
    go(Vector(first))
  }

  /** Nothing more is pulled for a damaged tail. */
  private def isWhole(tail: Vector[Part], bins: IndexedSeq[Int]): Boolean =
    try blocks.isWhole(tail, bins)
    catch { case _: DamagedFileException => true }
}

object TailPulls {

  /** A tail that is wanted: its first part, and who has it. */
  final case class Wanted(block: BlockName, address: ExecutorAddress)

  /** What has come of the tail that a duty's replica lacks: its first part, if it came in time. */
  final case class Pulled(duty: ReplicaDuty, first: Option[Part])
}
