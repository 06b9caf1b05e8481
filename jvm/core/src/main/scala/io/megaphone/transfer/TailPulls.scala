// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.util.concurrent.TimeUnit

import scala.annotation.tailrec

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.ExecutorAddress
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.TransferBlocks.Part

/** Pulls tails for many replicas at once, under one deadline: the first parts of all, then the
  * second ones of those that are not whole yet. So an executor is asked once for all of its tails,
  * or a few times if they are large. One that hangs costs one deadline, however many workers it
  * had.
  *
  * Threads: any.
  */
final class TailPulls(blocks: TransferBlocks, peers: Peers) {
  import TailPulls._

  /** Returns what has come, by the first part of the block: of each tail all parts, or those that
    * came in time.
    */
  def apply(wanted: Seq[Wanted], deadlineMs: Long): Map[BlockName, Vector[Part]] = {
    val start = System.nanoTime
    @tailrec
    def go(
        found: Map[BlockName, Vector[Part]],
        lacking: Seq[Wanted],
        number: Int
    ): Map[BlockName, Vector[Part]] = {
      val leftMs = deadlineMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime - start)
      if (lacking.isEmpty || number > 0 && leftMs <= 0) found
      else {
        val come = peers.pullAll(lacking.map(w => w.part(number) -> w.address), leftMs)
        val grown = lacking.flatMap { w =>
          come.get(w.part(number)).map { bytes =>
            val part = Part(w.part(number).toString, bytes)
            w -> (found.getOrElse(w.block, Vector.empty) :+ part)
          }
        }
        val next = grown.collect { case (w, parts) if !isWhole(parts, w.bins) => w }
        go(found ++ grown.map { case (w, parts) => w.block -> parts }, next, number + 1)
      }
    }
    go(Map.empty, wanted, 0)
  }

  /** Pulls the tails of the duties whose replicas lack just one; of the others nothing is asked. */
  def lackedBy(
      duties: Seq[ReplicaDuty],
      registry: Registry,
      deadlineMs: Long
  ): Map[ReplicaKey, Pulled] = {
    val wanted = for {
      duty <- duties
      replica <- registry.replica(duty.key)
      if replica.base.version + 1 == duty.settled.version
      address <- duty.address
    } yield duty -> Wanted(duty.block(duty.settled, BlockKind.Tail, 0), address, duty.bins)
    val come = apply(wanted.map(_._2), deadlineMs)
    wanted.map { case (duty, w) =>
      duty.key -> Pulled(duty, come.getOrElse(w.block, Vector.empty))
    }.toMap
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

  /** What has come of the tail that a duty's replica lacks: all parts if they came in time. */
  final case class Pulled(duty: ReplicaDuty, tail: Vector[Part])
}
