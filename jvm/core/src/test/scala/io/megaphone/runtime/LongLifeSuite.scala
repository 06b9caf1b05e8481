// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.log.memory.{HeapBudget, SpillFiles}
import io.megaphone.plan.RoutingTable
import io.megaphone.state.Registry

/** A worker's memory and files do not grow with its age, and idle bins are spilled first. */
class LongLifeSuite extends AnyFunSuite with SmallStore {

  test(
    "two thousand batches that put and evict the same number of keys do not grow heap and files"
  ) {
    val bins = 16
    val (store, registry, table) = (new Store(bins), new Registry, RoutingTable.roundRobin(bins, 1))
    val lease = store.lease(registry, 0, 1)
    def holding = lease.holding
    def name(key: Int) = f"key $key%09d".getBytes
    val sizes = for (batch <- 0 until 2000) yield {
      val turn = store.turn(batch.toLong, table, table)
      store.open(registry, lease, turn)
      for (bin <- 0 until bins; i <- 0 until 5) {
        val (added, evicted) = (name(5 * batch + i), name(5 * (batch - 20) + i))
        put(holding, bin, added, new Array[Byte](60))
        holding.log(bin).remove(0, evicted, 0, evicted.length)
      }
      val written = store.commit(lease, turn).frames.map(_.chunk).distinct.map(_.storedBytes).sum
      (written, holding.heapBytes)
    }
    assert(holding.keyCount == bins * 5L * 20)
    val (young, old) = (sizes.slice(200, 700), sizes.slice(1500, 2000))
    assert(old.map(_._1).sum <= 1.05 * young.map(_._1).sum, "bytes of files")
    assert(old.map(_._2).max <= 1.05 * young.map(_._2).max, "bytes of heap")
  }

  test("bins go to disk by how long they have not changed, the longest first") {
    val folder = Files.createTempDirectory("megaphone-disk")
    val budget = new HeapBudget(64 << 20, new SpillFiles(Seq(folder)))
    val worker = new LoneWorker(binsCount = 4, framesMax = 32, budget)
    val order = Seq(2, 0, 3, 1)
    worker.fill()
    for (bin <- order) {
      for (key <- 0 until 40) worker.put(bin, key, valueBytes = 8192)
      worker.commit()
    }
    def areOnDisk: Seq[Int] = order.filter(bin => worker.holding.log(bin).bytesOnDisk > 0)
    assert(areOnDisk.isEmpty)
    for (_ <- 1 to 20) {
      worker.holding.spill(100 * 1024) // less than a bin has
      assert(areOnDisk == order.take(areOnDisk.size))
    }
    assert(areOnDisk == order)
  }
}
