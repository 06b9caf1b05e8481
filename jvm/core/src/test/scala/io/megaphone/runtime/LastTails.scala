// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.format.{
  Compression, Compressions, ExecutorAddress, FileName, StateName, StoreId
}
import io.megaphone.plan.{Move, RoutingTable, StepId}
import io.megaphone.state.{Holding, Registry, ReplicaKey, Traffic}
import io.megaphone.transfer.{BlockName, TransferBlocks}

/** Four workers with a bin each, after two batches. Three of the bins are about to move to worker
  * 0, on an executor whose replicas of them lack the last tail.
  */
trait LastTails extends SmallStore {
  protected val four = RoutingTable.roundRobin(4, 4)
  protected val all = four.moved(Seq(1, 2, 3).map(Move(_, 0)), 1, 4)
  protected val step = StepId("plan", 0, 0)
  protected val address = ExecutorAddress("peer", "host", 1)
  protected val sources =
    Sources((1 to 3).map(_ -> step).toMap, (1 to 3).map(_ -> address).toMap, 60000, 9)

  protected def keyOf(worker: Int): ReplicaKey =
    ReplicaKey.forStep(StoreId(0, "default").in("run"), worker, 0, step)

  /** The state, and an executor that has the replicas.
    *
    * @param partBytes
    *   what a part of a tail has at most; a tail has two records
    */
  final protected class Moving(partBytes: Int = 1 << 20) {
    val store = new Store
    val target = new Registry
    private val source = new Registry
    batch(store, source, 0, 1, four, four, 1)
    for (worker <- 1 to 3) {
      val replica = new Holding(worker, 4)
      val file = FileName(worker, StateName(1, ""))
      val loaded = store.recovery.load(file, Seq(worker), four.contentHash)
      loaded.bins.valuesIterator.foreach(replica.put)
      replica.restart(file.name, Vector.empty)
      target.putReplica(keyOf(worker), replica, Traffic(fromPeer = 1000, fromCheckpoint = 10000))
    }

    /** The parts of each worker's tail. */
    val tails: Map[Int, Map[Int, Array[Byte]]] = {
      val blocks = new TransferBlocks(Compressions(Compression.None), partBytes = partBytes)
      (0 to 3).map { worker =>
        val lease = store.lease(source, worker, 10L + worker)
        val turn = store.turn(1, four, four)
        store.open(source, lease, turn)
        put(lease.holding, worker, 2)
        append(lease.holding, worker, 3)
        store.commit(lease, turn)
        worker -> partsOf(blocks.tail(lease.holding, Seq(worker))).toMap
      }.toMap
    }

    def bytesOf(worker: Int): Int = tails(worker).valuesIterator.map(_.length).sum

    /** The executor of the sources. It remembers which tails it was asked for together, and with
      * which deadline. First parts come in an order of the test's, and those of others never.
      */
    class Peer(order: Int*) extends SomePeers(block => tails(block.source).get(block.part)) {
      val asked: mutable.Buffer[(Seq[Int], Long)] = mutable.Buffer.empty
      override def pullAll(blocks: Seq[(BlockName, ExecutorAddress)], deadlineMs: Long)(
          come: (BlockName, Array[Byte]) => Unit
      ): Unit = {
        asked += blocks.map(_._1.source) -> deadlineMs
        for (worker <- order; (block, _) <- blocks.find(_._1.source == worker))
          come(block, tails(worker)(block.part))
      }
    }
  }
}
