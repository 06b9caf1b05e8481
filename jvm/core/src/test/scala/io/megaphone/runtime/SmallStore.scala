// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException

import scala.collection.mutable

import org.scalatest.Assertions

import io.megaphone.checkpoint.{Committer, Recovery}
import io.megaphone.format.{
  Compression, Compressions, FileName, FileSource, Footer, StateName, StoreId, VersionIds, WorkerId,
  WriterId
}
import io.megaphone.log.BinLog
import io.megaphone.log.BinLogModel.found
import io.megaphone.plan.{Move, RoutingTable}
import io.megaphone.state.{Attempt, Holding, Lease, Registry, StoreBatch}
import io.megaphone.testkit.{MemoryFiles, PassedOn}
import io.megaphone.transfer.TransferBlocks

/** One store of four bins, or of as many as are asked for, and two workers, in memory, and the code
  * around it: for schedules of a few steps told by hand.
  */
trait SmallStore extends Assertions {
  protected val before = RoutingTable.roundRobin(4, 2)
  protected val after = before.moved(Seq(Move(0, 1)), 1, 2)
  protected val key = "key".getBytes

  /** One store's files and the code around them. */
  final protected class Store(
      binsCount: Int = 4,
      limits: Committer.Limits = Committer.Limits()
  ) {

    /** Reads of files until one fails; none does below zero. */
    var readsLeft = -1
    val files: MemoryFiles = new MemoryFiles {
      override def open(file: FileName): FileSource = new PassedOn(super.open(file)) {
        override def read(position: Long, count: Int): Array[Byte] = {
          readsLeft -= 1
          if (readsLeft == 0) throw new IOException("the connection was lost")
          super.read(position, count)
        }
      }
    }
    val recovery = new Recovery(files, Compressions(Compression.None))
    val handOver = new TransferBlocks(Compressions(Compression.None))
    private val committer = new Committer(files, Compression.None, limits)

    def turn(version: Long, from: RoutingTable, to: RoutingTable): StoreBatch =
      StoreBatch(StoreId(0, "default").in("run"), version, from, to, VersionIds.Fixed)
    def lease(registry: Registry, worker: Int, attempt: Long, waitMs: Long = 0): Lease =
      registry.lease(
        WorkerId(StoreId(0, "default").in("run"), worker),
        binsCount,
        new Attempt(attempt, () => true),
        waitMs
      )
    def open(registry: Registry, lease: Lease, turn: StoreBatch): Unit = {
      opened(registry, lease, turn); ()
    }
    def opened(registry: Registry, lease: Lease, turn: StoreBatch): Arrivals =
      new Opener(registry, recovery, handOver, NoPeers).open(lease, turn, Sources.None)
    def commit(lease: Lease, turn: StoreBatch, isWhole: Boolean = false): Footer =
      committer(
        lease.holding,
        turn,
        StateName(turn.version + 1, ""),
        WriterId(0, lease.attempt.id),
        isWhole
      ).footer
  }

  /** A batch in which each worker of `to` puts a value into each of its bins. The workers' attempts
    * are numbered from `attempts` on.
    */
  protected def batch(
      store: Store,
      registry: Registry,
      version: Long,
      attempts: Long,
      from: RoutingTable,
      to: RoutingTable,
      value: Byte
  ): Unit = {
    val turn = store.turn(version, from, to)
    for (worker <- 0 until to.workers) {
      val lease = store.lease(registry, worker, attempts + worker)
      store.open(registry, lease, turn)
      to.binsOf(worker).foreach(put(lease.holding, _, value))
      store.commit(lease, turn)
      lease.end()
    }
  }

  protected type Making = ((Int, Array[Byte]) => Unit) => Unit

  /** The parts of a block, each with its number, in the order in which they are published. */
  protected def partsOf(make: Making): Seq[(Int, Array[Byte])] = {
    val parts = mutable.Buffer.empty[(Int, Array[Byte])]
    make((number, bytes) => parts += number -> bytes)
    parts.toSeq
  }

  /** The bytes of a block that has one part. */
  protected def onlyPart(make: Making): Array[Byte] = {
    val parts = partsOf(make)
    assert(parts.map(_._1) == Seq(0))
    parts.head._2
  }

  protected def put(holding: Holding, bin: Int, value: Byte): Unit =
    put(holding, bin, key, Array(value))
  protected def put(holding: Holding, bin: Int, key: Array[Byte], value: Array[Byte]): Unit = {
    holding.touch(bin)
    holding.log(bin).put(0, key, 0, key.length, value, 0, value.length)
  }
  protected def append(holding: Holding, bin: Int, value: Byte): Unit = {
    holding.touch(bin)
    holding.log(bin).append(0, key, 0, key.length, Array(value), 0, 1)
  }
  protected def list(log: BinLog, key: Array[Byte] = key): Seq[Byte] = {
    val at = found(log, 0, key).get
    at.bytes.slice(at.valueOffset, at.valueOffset + at.valueBytes).toSeq
  }
  protected def get(log: BinLog): Option[Byte] =
    found(log, 0, key).map(at => at.bytes(at.valueOffset))
}
