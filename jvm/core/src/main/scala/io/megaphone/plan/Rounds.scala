// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import scala.collection.mutable

/** Cuts moves into rounds in which no worker sends twice or receives twice: in each, a maximum
  * matching between senders and receivers, and one bin for each matched pair.
  *
  * Most maximum matchings are not unique. The worker with the most left to send or to receive goes
  * first, because it decides how many rounds there must be; among equals the one that has rested
  * longer.
  *
  * @param moves
  *   each bin at most once, and none to its owner
  */
private[plan] final class Rounds(table: RoutingTable, moves: Vector[Move]) {
  private type Sender = Int // index, not worker: senders and receivers are numbered from 0 each
  private type Receiver = Int

  private val senderOf: Map[Int, Sender] = indexed(moves.map(move => table.workerOf(move.bin)))
  private val receiverOf: Map[Int, Receiver] = indexed(moves.map(_.target))

  private val waiting =
    Array.fill(senderOf.size)(mutable.LinkedHashMap.empty[Receiver, mutable.Queue[Move]])
  private val toSend = new Array[Int](senderOf.size)
  private val toReceive = new Array[Int](receiverOf.size)
  for (move <- moves) {
    val sender = senderOf(table.workerOf(move.bin))
    val receiver = receiverOf(move.target)
    waiting(sender).getOrElseUpdate(receiver, mutable.Queue.empty) += move
    toSend(sender) += 1
    toReceive(receiver) += 1
  }
  private val receiversOf: Array[Array[Receiver]] = waiting.map(_.keys.toArray)
  private var senders: Vector[Sender] =
    toSend.indices.toVector // those with moves left, the longest rested first

  /** All rounds. Neighbouring moves, over the border of two rounds too, share no worker where that
    * can be had.
    */
  def all(): Vector[Vector[Move]] = {
    val rounds = Vector.newBuilder[Vector[Move]]
    var last: Option[Move] = None
    while (senders.nonEmpty) {
      val (sharing, others) = nextRound().span(move => last.exists(shareWorker(_, move)))
      val round = others ++ sharing
      last = round.lastOption
      rounds += round
    }
    rounds.result()
  }

  private def nextRound(): Vector[Move] = {
    senders = senders.sortBy(-toSend(_))
    val receivers = new Matching(receiversOf, toReceive.length, greedyMatching()).maximum()
    val (sending, resting) = senders.partition(receivers(_) != Matching.Unmatched)
    val round = sending.map(sender => take(sender, receivers(sender)))
    senders = (resting ++ sending).filter(toSend(_) > 0)
    round
  }

  /** Gives each sender in turn the free receiver that waits for the most bins. */
  private def greedyMatching(): Array[Receiver] = {
    val matched = Array.fill(toSend.length)(Matching.Unmatched)
    val free = Array.fill(toReceive.length)(true)
    for (sender <- senders) {
      var best = Matching.Unmatched
      for (receiver <- receiversOf(sender) if free(receiver))
        if (best == Matching.Unmatched || toReceive(receiver) > toReceive(best)) best = receiver
      matched(sender) = best
      if (best != Matching.Unmatched) free(best) = false
    }
    matched
  }

  private def take(sender: Sender, receiver: Receiver): Move = {
    val queue = waiting(sender)(receiver)
    val move = queue.dequeue()
    toSend(sender) -= 1
    toReceive(receiver) -= 1
    if (queue.isEmpty) {
      waiting(sender) -= receiver
      receiversOf(sender) = waiting(sender).keys.toArray
    }
    move
  }

  private def indexed(workers: Vector[Int]): Map[Int, Int] =
    workers.distinct.sorted.zipWithIndex.toMap

  private def shareWorker(a: Move, b: Move): Boolean =
    a.target == b.target || table.workerOf(a.bin) == table.workerOf(b.bin)
}
