// SPDX-License-Identifier: Apache-2.0
package io.megaphone.store

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format._
import io.megaphone.log.BinLog
import io.megaphone.routing.{Move, RoutingTable}

/** Schedules of a few steps that once broke a holding; the simulation found them. */
class HoldingSuite extends AnyFunSuite {
  private val before = RoutingTable.roundRobin(4, 2)
  private val after = before.moved(Seq(Move(0, 1)), 1, 2)
  private val key = "key".getBytes

  /** One store's files and the code around them. */
  final private class Store {
    private val bytes = mutable.Map.empty[FileName, Array[Byte]]
    val files: StateFiles = new StateFiles {
      def create(file: FileName): AtomicOutput = new AtomicOutput {
        private val out = new java.io.ByteArrayOutputStream
        def write(b: Int): Unit = out.write(b)
        override def close(): Unit = bytes(file) = out.toByteArray
        def cancel(): Unit = ()
      }
      def open(file: FileName): FileSource = new BytesSource(file.toString, bytes.getOrElse(file, throw new MissingFileException(file.toString)))
    }
    val recovery = new Recovery(files, Compressions(Compression.None))
    private val committer = new Committer(files, Compression.None, Committer.Limits())

    def turn(version: Long, from: RoutingTable, to: RoutingTable): Turn = Turn(StoreKey("run", 0, "default"), version, from, to, Vector.empty)
    def lease(registry: Registry, worker: Int, attempt: Long): Lease =
      registry.lease(StoreKey("run", 0, "default"), worker, 4, new Attempt(attempt, () => true), 0)
    def open(registry: Registry, lease: Lease, turn: Turn): Unit = {
      new Opener(registry, recovery, new HandOver(Compressions(Compression.None)), (_, _, _) => None).open(lease, turn, Sources.None); ()
    }
    def commit(lease: Lease, turn: Turn): Footer = committer(lease.holding, turn, StateName(turn.version + 1, ""), WriterId(0, lease.attempt.id)).footer
  }

  private def put(holding: Holding, bin: Int, value: Byte): Unit = { holding.touch(bin); holding.log(bin).put(0, key, 0, key.length, Array(value), 0, 1) }
  private def get(log: BinLog): Option[Byte] = if (log.find(0, key, 0, key.length)) Some(log.cursor.bytes(log.cursor.valueOffset)) else None

  test("a bin that a target took from this executor still leaves for older copies of its worker elsewhere") {
    val store = new Store
    val (a, b) = (new Registry, new Registry)
    // Worker 0 commits version 1 on both executors, then goes on on a alone.
    for ((registry, attempt) <- Seq(b -> 1L, a -> 2L)) {
      val lease = store.lease(registry, 0, attempt)
      store.open(registry, lease, store.turn(0, before, before))
      put(lease.holding, 0, 1)
      store.commit(lease, store.turn(0, before, before))
      lease.release()
    }
    val one = store.lease(a, 1, 3)
    store.open(a, one, store.turn(0, before, before))
    store.commit(one, store.turn(0, before, before))
    // Batch 1 moves bin 0. Worker 0 opens first, worker 1 takes the bin, worker 0 commits.
    val step = store.turn(1, before, after)
    val zero = store.lease(a, 0, 4)
    store.open(a, zero, step)
    store.open(a, one, step)
    assert(one.holding.has(0) && !zero.holding.has(0))
    assert(store.commit(zero, step).left == Vector(0))
    put(one.holding, 0, 2)
    store.commit(one, step)
    // Batch 2 runs worker 0 on b: what it has of bin 0 there is void.
    val again = store.lease(b, 0, 5)
    store.open(b, again, store.turn(2, after, after))
    assert(again.holding.bins.toVector == Vector(2))
  }

  test("a bin is touched once, though its first touch may leave no record") {
    val store = new Store
    val lease = store.lease(new Registry, 0, 1)
    store.open(new Registry, lease, store.turn(0, before, before))
    lease.holding.touch(0)
    lease.holding.log(0).remove(0, key, 0, key.length)
    put(lease.holding, 0, 1)
    assert(lease.holding.touched == Seq(0))
    assert(store.commit(lease, store.turn(0, before, before)).frames.map(_.bin) == Vector(0))
  }

  test("an attempt that has ended takes nothing back of the one that came after it") {
    val store = new Store
    val registry = new Registry
    val first = store.lease(registry, 0, 1)
    store.open(registry, first, store.turn(0, before, before))
    first.end()
    val second = store.lease(registry, 0, 2)
    store.open(registry, second, store.turn(0, before, before))
    put(second.holding, 0, 1)
    first.end()
    assert(get(second.holding.log(0)) == Some(1.toByte))
    assert(second.holding eq registry.holding(StoreKey("run", 0, "default"), 0).get)
  }
}
