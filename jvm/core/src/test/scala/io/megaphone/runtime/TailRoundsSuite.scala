// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.StateName
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.{BlockKind, BlockName, Peers, ReplicaDuty, TailPulls, TransferBlocks}

/** Tails come in rounds of bounded size. */
class TailRoundsSuite extends AnyFunSuite with LastTails {
  private val settled = StateName(2, "")

  private def wanted(worker: Int) = {
    val key = keyOf(worker)
    val block = BlockName(key.store, worker, 0, settled, BlockKind.Tail, step)
    TailPulls.Wanted(block, address, Vector(worker))
  }

  /** The rounds in which the tails of workers come: of each, the workers and numbers of parts. */
  private def rounds(blocks: TransferBlocks, peers: Peers, workers: Int*): Seq[Map[Int, Int]] = {
    val pulls = new TailPulls(blocks, peers)
    Iterator
      .unfold(workers.map(wanted)) { left =>
        Option.when(left.nonEmpty) {
          val round = pulls(left, 60000)
          assert(round.tails.keySet ++ round.later == left.toSet)
          (round.tails.map { case (w, parts) => w.block.source -> parts.size }, round.later.toSeq)
        }
      }
      .toSeq
  }

  test("a round ends when its tails have as many bytes as there is room for") {
    val moving = new Moving()
    val two = moving.bytesOf(1) + moving.bytesOf(2)
    def of(tailBytesMax: Int) =
      rounds(moving.blocks(tailBytesMax.toLong), new moving.Peer, 1, 2, 3).map(_.keySet)
    assert(of(two) == Seq(Set(1, 2), Set(3)))
    assert(of(two - 1) == Seq(Set(1), Set(2), Set(3)))
    assert(of(1) == Seq(Set(1), Set(2), Set(3)), "one comes, however large it is")
  }

  test("of tails that have several parts, so many come whole as there is room for") {
    val moving = new Moving(partBytes = 1)
    assert(moving.tails(1).size == 2)
    def of(tailBytesMax: Int) =
      rounds(moving.blocks(tailBytesMax.toLong), new moving.Peer, 1, 2, 3)
    assert(of(1 << 20) == Seq(Map(1 -> 2, 2 -> 2, 3 -> 2)))
    val firstParts = (1 to 3).map(moving.tails(_)(0).length).sum
    assert(of(firstParts) == Seq(Map(1 -> 2), Map(2 -> 2), Map(3 -> 2)))
  }

  test("a tail that does not come is asked for once, and holds up no other") {
    val moving = new Moving()
    val asked = mutable.Buffer.empty[Int]
    val peers = new SomePeers({ block =>
      asked += block.source
      if (block.source == 1) None else moving.tails(block.source).get(block.part)
    })
    val one = moving.bytesOf(2)
    assert(
      rounds(moving.blocks(one.toLong), peers, 1, 2, 3) == Seq(Map(1 -> 0, 2 -> 1), Map(3 -> 1))
    )
    assert(asked.count(_ == 1) == 1)
  }

  test("an executor brings all replicas forward, in as many rounds as it has room for") {
    val moving = new Moving()
    val peer = new moving.Peer
    val agent = new ExecutorAgent(
      moving.target,
      peer,
      moving.blocks(moving.bytesOf(1).toLong),
      FaultPoints.Off,
      (_, _, _) => moving.store.recovery,
      60000,
      _ => ()
    )
    val duties = (1 to 3).map { worker =>
      val base = StateName(1, "")
      val (bins, hash) = (Vector(worker), four.contentHash)
      ReplicaDuty(keyOf(worker), bins, 4, base, settled, hash, Some(address), None)
    }
    val live = Map("run" -> LiveRun("root", 2, Set(step), None))
    assert(agent.obey(Orders(1, live, duties.toVector)))
    val ended = mutable.Buffer.empty[ReplicaKey]
    val host = new DutyHost {
      override def begins(key: ReplicaKey): Unit = ()
      override def ends(key: ReplicaKey): Unit = ended += key
      override def failed(keys: Vector[ReplicaKey], cause: Throwable): Unit = throw cause
    }
    assert(agent.work(duties.map(_.key).toVector, host))
    assert(agent.report.ready.toSet == duties.map(_.key -> 2L).toSet)
    assert(ended == duties.map(_.key))
    val traffic = duties.map(duty => moving.target.replica(duty.key).get.traffic)
    assert(traffic.map(_.fromCheckpoint) == Seq(10000, 10000, 10000), "no file was read")
    assert(peer.asked.map(_._1) == Seq(Seq(1, 2, 3), Seq(2, 3), Seq(3)))
  }
}
