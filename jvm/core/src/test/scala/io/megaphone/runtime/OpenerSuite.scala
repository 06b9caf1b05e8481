// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.nio.file.Paths

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.log.memory.{HeapBudget, SpillFiles}
import io.megaphone.state.Registry

/** How a worker's own bins come to the batch's name. */
class OpenerSuite extends AnyFunSuite with SmallStore {

  test("a bin that finds no room to be compacted waits, and the batch goes on") {
    val MiB = 1L << 20
    val budget = new HeapBudget(4 * MiB, new SpillFiles(Seq(Paths.get("/nowhere"))))
    val (store, registry) = (new Store, new Registry(budget = budget))
    val lease = store.lease(registry, 0, 1)
    def log = lease.holding.log(0)
    def open(version: Long): Unit =
      store.open(registry, lease, store.turn(version, before, before))
    def runBatch(version: Long)(change: Int => Unit): Unit = {
      lease.holding.touch(0)
      (0 until 6000).foreach(change)
      store.commit(lease, store.turn(version, before, before))
    }
    def name(i: Int) = f"key $i%04d".getBytes
    def put(i: Int): Unit = log.put(0, name(i), 0, 8, new Array[Byte](80), 0, 80)
    open(0)
    runBatch(0)(put)
    open(1)
    runBatch(1)(i => if (i % 3 == 0) put(i) else { log.remove(0, name(i), 0, 8); () })
    val dead = log.logBytes - log.liveBytes
    assert(dead > log.liveBytes + 1024)
    budget.measure(5 * MiB)
    open(2)
    assert(log.logBytes - log.liveBytes == dead, "it waits for room")
    budget.measure(log.heapBytes)
    runBatch(2)(i => if (i % 3 == 0) put(i))
    open(3)
    assert(log.logBytes < 2 * log.liveBytes && log.keyCount == 2000, "there is room")
  }
}
