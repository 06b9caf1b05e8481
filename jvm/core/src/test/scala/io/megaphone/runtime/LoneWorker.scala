// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.checkpoint.Committer
import io.megaphone.format.{Chain, Compression, FileName, StateName, StoreId, VersionIds, WriterId}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.HeapBudget
import io.megaphone.plan.RoutingTable
import io.megaphone.state.{Holding, StoreBatch}
import io.megaphone.testkit.MemoryFiles

/** A worker that has all bins, and whose files nobody reads: they never appear. */
final class LoneWorker(binsCount: Int, framesMax: Int, budget: HeapBudget = HeapBudget.Unlimited) {
  private val table = RoutingTable.roundRobin(binsCount, 1)
  private val nowhere = new MemoryFiles {
    override protected def appear(file: FileName, bytes: Array[Byte]): Unit = ()
  }
  private val committer = new Committer(nowhere, Compression.None, Committer.Limits(framesMax))
  val holding = new Holding(0, binsCount)
  val bins: Vector[Int] = (0 until binsCount).toVector
  holding.restart(StateName(0, StateName.FixedId), Vector.empty)
  bins.foreach(bin => holding.put(bin, new BinLog(budget), Chain.Empty))

  /** A commit that makes each bin large beside what a batch of small rows adds to all. */
  def fill(): Unit = { bins.foreach(put(_, key = -1, valueBytes = 8192)); commit(); () }

  def put(bin: Int, key: Int, valueBytes: Int): Unit = {
    val name = s"key $key".getBytes
    holding.touch(bin)
    holding.log(bin).put(0, name, 0, name.length, new Array[Byte](valueBytes), 0, valueBytes)
  }

  def remove(bin: Int, key: Int): Unit = {
    val name = s"key $key".getBytes
    holding.touch(bin)
    holding.log(bin).remove(0, name, 0, name.length)
    ()
  }

  /** Commits what has changed, and settles it.
    *
    * @param incomplete
    *   the bins that may be incomplete
    */
  def commit(incomplete: Iterable[Int] = Nil): Committer.Written = {
    val version = holding.base.version
    val key = StoreId(0, "default").in("run")
    val turn = StoreBatch(key, version, table, table, VersionIds.Fixed, incomplete.toSet)
    val committed =
      committer(holding, turn, StateName(version + 1, StateName.FixedId), WriterId(0, 0))
    holding.settle()
    committed
  }

  /** Frames of the longest chain. */
  def longest: Int = bins.iterator.map(holding.chain(_).frameCount).max
}
