// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.ExecutorAddress
import io.megaphone.state.Registry
import io.megaphone.transfer.{BlockName, Peers}

/** How a worker takes bins that other workers had. */
class AdopterSuite extends AnyFunSuite with LastTails {

  test("the last tails of all replicas are pulled at once, under one deadline") {
    val moving = new Moving()
    val peer = new moving.Peer
    adopt(moving, peer, 7, tailBytesMax = 1 << 20)
    assert(peer.asked.toSeq == Seq(Seq(1, 2, 3) -> 7L))
  }

  test("tails for which there is no room are pulled once the others are applied") {
    val moving = new Moving()
    val peer = new moving.Peer
    adopt(moving, peer, 60000, tailBytesMax = moving.bytesOf(1) + moving.bytesOf(2))
    assert(peer.asked.map(_._1).toSeq == Seq(Seq(1, 2, 3), Seq(3)))
    assert(peer.asked.forall(_._2 <= 60000), "under one deadline")
  }

  /** Worker 0 takes the bins of all others. */
  private def adopt(
      moving: Moving,
      peers: Peers,
      tailDeadlineMs: Long,
      tailBytesMax: Long
  ): Unit = {
    import moving.{bytesOf, store, target}
    val zero = store.lease(target, 0, 20)
    val arrivals = new Opener(target, store.recovery, moving.blocks(tailBytesMax), peers)
      .open(zero, store.turn(2, four, all), sources(tailDeadlineMs))
    assert(arrivals.binsFromPeer == 3 && arrivals.binsIn == 3 && target.replicasCount == 0)
    assert(arrivals.bytesFromPeer == 3000 + (1 to 3).map(bytesOf).sum)
    assert(arrivals.bytesFromCheckpoint / 1000 == 30, "and the worker's own bin")
    for (bin <- 0 to 3) assert(list(zero.holding.log(bin)) == Seq(2, 3))
  }

  test("all images are pulled under one deadline, so one executor that hangs costs no more") {
    val store = new Store
    batch(store, new Registry, 0, 1, four, four, 1)
    val asked = mutable.Buffer.empty[Int]
    val hanging = new SomePeers(_ => None) {
      override def pull(
          block: BlockName,
          address: ExecutorAddress,
          deadlineMs: Long
      ): Option[Array[Byte]] = {
        asked += block.source
        val end = System.nanoTime + deadlineMs * 1000000
        while (System.nanoTime < end) Thread.onSpinWait()
        None
      }
    }
    val target = new Registry
    val zero = store.lease(target, 0, 20)
    val arrivals = new Opener(target, store.recovery, store.handOver, hanging)
      .open(zero, store.turn(1, four, all), sources(7))
    assert(asked.toSeq == Seq(1), "nothing is left of the deadline for the others")
    assert(arrivals.binsFromCheckpoint == 3 && arrivals.binsIn == 3)
    assert((0 to 3).map(bin => get(zero.holding.log(bin))) == Seq.fill(4)(Some(1.toByte)))
  }
}
