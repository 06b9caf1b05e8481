// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.ExecutorAddress
import io.megaphone.pace.Clock
import io.megaphone.state.Registry
import io.megaphone.transfer.{BlockName, Peers}

/** How a worker takes bins that other workers had. */
class AdopterSuite extends AnyFunSuite with LastTails {

  test("the last tails of all replicas are pulled at once, under one deadline") {
    val moving = new Moving()
    val peer = new moving.Peer(3, 1, 2)
    val arrivals = adopt(moving, peer)
    assert(peer.asked.toSeq == Seq(Seq(1, 2, 3) -> sources.tailDeadlineMs))
    assert(arrivals.bytesFromPeer == 3000 + (1 to 3).map(moving.bytesOf).sum)
    assert(arrivals.bytesFromCheckpoint / 1000 == 30, "and the worker's own bin")
  }

  test("a large last tail is pulled part by part") {
    val moving = new Moving(partBytes = 1)
    assert(moving.tails.values.forall(_.size == 2))
    val arrivals = adopt(moving, new moving.Peer(1, 2, 3))
    assert(arrivals.bytesFromPeer == 3000 + (1 to 3).map(moving.bytesOf).sum)
  }

  test(
    "a tail that does not come is read from its file, and so is one whose second part does not"
  ) {
    val moving = new Moving(partBytes = 1)
    val peer = new moving.Peer(1, 2) {
      override def pull(block: BlockName, at: ExecutorAddress, ms: Long): Option[Array[Byte]] =
        super.pull(block, at, ms).filter(_ => block.source == 1)
    }
    val arrivals = adopt(moving, peer)
    val come = 3000 + moving.bytesOf(1) + moving.tails(2)(0).length
    assert(arrivals.bytesFromPeer == come)
  }

  /** Worker 0 takes the bins of all others. */
  private def adopt(moving: Moving, peers: Peers): Arrivals = {
    import moving.{store, target}
    val zero = store.lease(target, 0, 20)
    val arrivals = new Opener(target, store.recovery, store.handOver, peers)
      .open(zero, store.turn(2, four, all), sources)
    assert(arrivals.binsFromPeer == 3 && arrivals.binsIn == 3 && target.replicasCount == 0)
    for (bin <- 0 to 3) assert(list(zero.holding.log(bin)) == Seq(2, 3))
    arrivals
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
      .open(zero, store.turn(1, four, all), sources)
    assert(asked.toSeq == Seq(1), "nothing is left of the deadline for the others")
    assert(arrivals.binsFromCheckpoint == 3 && arrivals.binsIn == 3)
    assert((0 to 3).map(bin => get(zero.holding.log(bin))) == Seq.fill(4)(Some(1.toByte)))
  }

  test("all stores of a task together wait for a frozen executor once") {
    var passedMs = 0L
    val clock = new Clock {
      override def nanoTime: Long = passedMs * 1000000
      override def waitOn(monitor: Object, nanos: Long): Unit = ()
    }
    val frozen = new SomePeers(_ => None) {
      override def pull(block: BlockName, at: ExecutorAddress, ms: Long): Option[Array[Byte]] = {
        passedMs += ms
        None
      }
    }
    val peers = new ImpatientPeers(frozen, clock)
    for (_ <- 1 to 4) { // of a join of two streams
      val store = new Store
      batch(store, new Registry, 0, 1, four, four, 1)
      val target = new Registry
      val zero = store.lease(target, 0, 20)
      val direct = Sources(Map(1 -> step), Map(1 -> address), 1000, 30000)
      new Opener(target, store.recovery, store.handOver, peers)
        .open(zero, store.turn(1, four, all), direct)
      assert((0 to 3).map(bin => get(zero.holding.log(bin))) == Seq.fill(4)(Some(1.toByte)))
    }
    assert(passedMs == 30000)
  }
}
