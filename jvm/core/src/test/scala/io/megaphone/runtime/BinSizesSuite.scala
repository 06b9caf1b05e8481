// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{Chain, StateName, StoreId, WorkerId}
import io.megaphone.log.BinLog
import io.megaphone.pace.Clock
import io.megaphone.state.Holding

/** Which commits tell how large the bins are, and what they tell. */
class BinSizesSuite extends AnyFunSuite {

  private final class ManualClock extends Clock {
    var nanoTime = 0L
    override def waitOn(monitor: Object, nanos: Long): Unit = throw new AssertionError
  }

  test("the sizes are those of the bins that stay, with what the last batch wrote") {
    val holding = new Holding(0, 8)
    for (bin <- Seq(1, 4, 6)) {
      val log = new BinLog
      write(log, "old", bin)
      log.settle()
      holding.put(bin, log, Chain.Empty)
    }
    holding.touch(4)
    write(holding.log(4), "new", 1)
    holding.markLeaving(6)
    val sizes = BinSizes.of(holding)
    assert(sizes.bins.toSeq == Seq(1, 4))
    assert(sizes.keys.toSeq == Seq(1, 5))
    assert(sizes.bytes.toSeq == Seq(1, 4).map(holding.log(_).liveBytes))
    assert(sizes.bytesWritten.toSeq == Seq(0, holding.log(4).tailBytes))
    assert(sizes.bytesWritten(1) > 0)
  }

  test("accesses are the mean of the batches since they were counted last") {
    val holding = new Holding(0, 8)
    holding.put(1, new BinLog, Chain.Empty)
    def used(times: Long, version: Long) = {
      holding.restart(StateName(version, ""), Vector.empty)
      holding.log(1).accesses += times
      BinSizes.of(holding).accesses.toSeq
    }
    assert(used(6, version = 3) == Seq(6), "of one batch, the first")
    assert(used(6, version = 5) == Seq(3) && used(0, version = 6) == Seq(0))
  }

  private def write(log: BinLog, name: String, keys: Int): Unit =
    (1 to keys).foreach { i =>
      val key = s"$name$i".getBytes
      log.put(0, key, 0, key.length, key, 0, key.length)
    }

  private def worker(number: Int, run: String = "run") =
    WorkerId(StoreId(0, "default").in(run), number)

  test("a worker's first commit tells them, then one in each interval") {
    val clock = new ManualClock
    val census = new Census(clock, intervalMs = 10)
    def due(worker: WorkerId) = census.isDue(worker, hasMoved = false)
    assert(due(worker(0)) && due(worker(1)))
    clock.nanoTime = 9999999
    assert(!due(worker(0)))
    clock.nanoTime += 1
    assert(due(worker(0)) && !due(worker(0)))
  }

  test("a commit with which bins came or went tells them at once") {
    val census = new Census(new ManualClock)
    assert(Seq.fill(2)(census.isDue(worker(0), hasMoved = true)).forall(identity))
  }

  test("of a run that is over nothing is kept") {
    val census = new Census(new ManualClock)
    for (run <- Seq("a", "b")) census.isDue(worker(0, run), hasMoved = false)
    census.keepRuns(_ == "a")
    assert(Seq("a", "b").map(r => census.isDue(worker(0, r), hasMoved = false)) == Seq(false, true))
  }
}
