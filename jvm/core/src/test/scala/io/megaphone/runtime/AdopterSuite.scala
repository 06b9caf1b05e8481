// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{ExecutorAddress, FileName, StateName, StoreId}
import io.megaphone.plan.{Move, RoutingTable, StepId}
import io.megaphone.state.{Holding, Registry, ReplicaKey, Traffic}
import io.megaphone.transfer.BlockName

/** How a worker takes bins that other workers had. */
class AdopterSuite extends AnyFunSuite with SmallStore {
  private val four = RoutingTable.roundRobin(4, 4)
  private val all = four.moved(Seq(1, 2, 3).map(Move(_, 0)), 1, 4)
  private val step = StepId("plan", 0, 0)
  private val address = ExecutorAddress("peer", "host", 1)

  test("the last tails of all replicas are pulled at once, under one deadline") {
    val store = new Store
    val (source, target) = (new Registry, new Registry)
    batch(store, source, 0, 1, four, four, 1)
    for (worker <- 1 to 3) {
      val replica = new Holding(worker, 4)
      val file = FileName(worker, StateName(1, ""))
      store.recovery
        .load(file, Seq(worker), four.contentHash)
        .bins
        .valuesIterator
        .foreach(replica.put)
      replica.restart(file.name, Vector.empty)
      val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), worker, 0, step)
      target.putReplica(key, replica, Traffic(fromPeer = 1000, fromCheckpoint = 10000))
    }
    val tails = (0 to 3).map { worker =>
      val lease = store.lease(source, worker, 10L + worker)
      val turn = store.turn(1, four, four)
      store.open(source, lease, turn)
      put(lease.holding, worker, 2)
      store.commit(lease, turn)
      onlyPart(store.handOver.tail(lease.holding, Seq(worker)))
    }
    val asked = mutable.Buffer.empty[(Seq[Int], Long)]
    val peers = new SomePeers(_ => None) {
      override def pullAll(
          blocks: Seq[(BlockName, ExecutorAddress)],
          deadlineMs: Long
      ): Map[BlockName, Array[Byte]] = {
        asked += blocks.map(_._1.source) -> deadlineMs
        blocks.map { case (block, _) => block -> tails(block.source) }.toMap
      }
    }
    val zero = store.lease(target, 0, 20)
    val sources =
      Sources((1 to 3).map(_ -> step).toMap, (1 to 3).map(_ -> address).toMap, 7, 9)
    val arrivals = new Opener(target, store.recovery, store.handOver, peers)
      .open(zero, store.turn(2, four, all), sources)
    assert(asked.toSeq == Seq(Seq(1, 2, 3) -> 7L))
    assert(arrivals.binsFromPeer == 3 && arrivals.binsIn == 3 && target.replicasCount == 0)
    val tailBytes = tails.tail.map(_.length).sum
    assert(arrivals.bytesFromPeer == 3000 + tailBytes)
    assert(arrivals.bytesFromCheckpoint / 1000 == 30, "and the worker's own bin")
    assert((0 to 3).map(bin => get(zero.holding.log(bin))) == Seq.fill(4)(Some(2.toByte)))
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
    val sources =
      Sources((1 to 3).map(_ -> step).toMap, (1 to 3).map(_ -> address).toMap, 7, 9)
    val arrivals = new Opener(target, store.recovery, store.handOver, hanging)
      .open(zero, store.turn(1, four, all), sources)
    assert(asked.toSeq == Seq(1), "nothing is left of the deadline for the others")
    assert(arrivals.binsFromCheckpoint == 3 && arrivals.binsIn == 3)
    assert((0 to 3).map(bin => get(zero.holding.log(bin))) == Seq.fill(4)(Some(1.toByte)))
  }
}
