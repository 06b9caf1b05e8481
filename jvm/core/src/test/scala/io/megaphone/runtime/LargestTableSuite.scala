// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Settled
import io.megaphone.checkpoint.planlog.{History, LogRecord}
import io.megaphone.format.{StoreId, VersionIds}
import io.megaphone.plan.{Bins, Group, Operator, RoutingTable}
import io.megaphone.state.Registry
import io.megaphone.testkit.Allocated

/** What the most bins and very many workers cost one of the workers, and a reader: bytes that are
  * allocated, no seconds. Each worker has as many bins as one that has all of a small table.
  */
class LargestTableSuite extends AnyFunSuite with SmallStore {
  private val small = RoutingTable.roundRobin(64, 1)
  private val large = RoutingTable.roundRobin(Bins.Max, Bins.Max / 64)
  private val batches = 48
  private val MiB = 1L << 20

  private final class Worker(table: RoutingTable) {
    val store = new Store(table.bins)
    val registry = new Registry
    private val lease = store.lease(registry, 0, 1)
    private val bins = table.binsOf(0)
    private var version = 0L

    def batch(): Unit = {
      val turn = store.turn(version, table, table)
      store.open(registry, lease, turn)
      put(lease.holding, bins((version % bins.size).toInt), version.toByte)
      store.commit(lease, turn)
      version += 1
    }

    def recover(): Unit = {
      val fresh = new Registry
      val lease = store.lease(fresh, 0, 2)
      store.open(fresh, lease, store.turn(version, table, table))
    }

    def read(): Unit = {
      val group = Group(Vector(Operator(0, "aggregate", Vector("default"))), table.workers)
      val started = LogRecord.Started("run", 0, 1, table.bins, Vector(group), Map(0L -> table))
      val reader =
        new StateReader(History.of(Vector(started)), StoreId(0, "default"), 0, store.recovery)
      reader.load(version, _ => VersionIds.Fixed)
      ()
    }
  }

  /** What a batch, a recovery and a reader allocate, and how much more they may with many bins: the
    * last two make arrays of some words for each bin of the table.
    */
  private def costs(table: RoutingTable): Seq[(String, Long, Long)] = {
    val worker = new Worker(table)
    (1 to batches).foreach(_ => worker.batch())
    def median(body: => Unit) = Seq.fill(9)(Allocated.bytesOf(body)).sorted.apply(4)
    Seq(
      ("batch", median(worker.batch()), MiB / 8),
      ("recovery", median(worker.recover()), 4 * MiB),
      ("reader", median(worker.read()), 4 * MiB)
    )
  }

  test("a worker of very many costs little more than one that has a small table for itself") {
    costs(small) // the code is compiled
    for (((what, few, more), (_, many, _)) <- costs(small).zip(costs(large))) {
      info(s"$what: ${few / 1024} KiB, ${many / 1024} KiB")
      assert(many < few + more, what)
    }
  }

  test("the bins of a worker are found without an object for each bin of the table") {
    assert(Allocated.bytesOf(large.binsOf(0)) < (64 << 10))
  }

  test("a sweep finds the files of all workers at a price for each bin, and not for each pair") {
    val version = Settled(7, Map(0L -> large), Map.empty)
    val store = StoreId(0, "default")
    val heads = version.heads(0, store)
    assert(heads.map(_.file.worker) == Vector.range(0, large.workers))
    assert(heads(5).bins == large.binsOf(5).toVector)
    val bytes = Allocated.bytesOf(version.heads(0, store))
    info(s"${bytes / 1024} KiB")
    assert(bytes < 16 * MiB)
  }
}
