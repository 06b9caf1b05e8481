// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{Compression, Compressions, StoreId}
import io.megaphone.log.memory.{HeapBudget, HeapBudgetSuite, SpillFiles}
import io.megaphone.plan.StepId
import io.megaphone.state.{Lease, Registry}
import io.megaphone.transfer.{BlockKind, BlockName, Peers, Preparer, TransferBlocks}

/** An image that waits to be published keeps pages that its log may have left: they count. */
class QueuedImagesSuite extends AnyFunSuite with SmallStore {
  private val step = StepId("plan", 0, 0)
  private val stateBytes = 1L << 20

  /** An executor with one worker, whose bin 0 has a settled mebibyte. */
  private final class Executor(folder: java.nio.file.Path, peers: Peers = NoPeers) {
    val budget = new HeapBudget(4 * stateBytes, new SpillFiles(Seq(folder)))
    val registry = new Registry(budget = budget)
    private val store = new Store
    val agent = new ExecutorAgent(
      registry,
      peers,
      new TransferBlocks(Compressions(Compression.None), budget),
      FaultPoints.Off,
      (_, _, _) => new Recovery(store.files, Compressions(Compression.None)),
      0,
      _ => ()
    )
    agent.notice(1) // a task has brought news, so the agent's orders are old
    val lease: Lease = store.lease(registry, 0, 1)

    def batch(version: Long): Unit = {
      val turn = store.turn(version, before, before)
      store.open(registry, lease, turn)
      lease.holding.touch(0)
      for (i <- 0 until 256)
        lease.holding.log(0).put(0, Array(i.toByte), 0, 1, new Array[Byte](4096), 0, 4096)
      store.commit(lease, turn)
      store.open(registry, lease, store.turn(version + 1, before, before))
    }
    batch(0)

    def queue(): Unit = {
      val key = StoreId(0, "default").in("run")
      val block = BlockName(key, 0, 1, lease.holding.base, BlockKind.Image, step)
      agent.publisher.queueImage(block, TransferBlocks.snapshot(lease.holding, Seq(0)))
    }
    def held: Long = { registry.measure(); budget.heldBytes }
  }

  /** What a queued image keeps, after `leave` has made its log leave all pages. */
  private def kept(leave: Executor => Unit, peers: Peers = NoPeers)(end: Executor => Unit): Long =
    HeapBudgetSuite.withFolder { folder =>
      val executor = new Executor(folder, peers)
      val empty = executor.held
      executor.queue()
      assert(executor.held == empty, "the log still has all pages")
      leave(executor)
      val all = executor.held
      end(executor)
      val left = executor.held
      assert(left < all)
      all - left
    }

  private def spill(executor: Executor): Unit = executor.lease.holding.spill(Long.MaxValue)
  private def publish(executor: Executor): Unit = assert(executor.agent.publisher.publishNext())

  test("pages that were spilled count until their image is published") {
    val bytes = kept(spill)(publish)
    assert(bytes > stateBytes * 9 / 10 && bytes < stateBytes * 11 / 10)
  }

  test("pages that a compaction has left count until their image is published") {
    // Each batch replaces all rows, and the next one compacts the log.
    val bytes = kept(executor => (1L to 3L).foreach(executor.batch))(publish)
    assert(bytes > stateBytes * 9 / 10 && bytes < stateBytes * 11 / 10)
  }

  for ((behind, isPublished) <- Seq(Preparer.TailsMax -> true, Preparer.TailsMax + 1 -> false))
    test(s"an image that $behind tails must lead on from is published: $isPublished") {
      HeapBudgetSuite.withFolder { folder =>
        var published = 0
        val peers = new SomePeers(_ => None) {
          override def publish(block: BlockName, bytes: Array[Byte]): Unit = published += 1
        }
        val executor = new Executor(folder, peers)
        executor.queue()
        val settled = executor.lease.holding.base.version + behind
        val live = Map("run" -> LiveRun("root", settled, Set(step), None))
        executor.agent.obey(Orders(1, live, Vector.empty))
        assert(executor.agent.publisher.publishNext() && (published > 0) == isPublished)
      }
    }

  test("an image that nobody wants any more, or that cannot be published, counts no longer") {
    val broken = new SomePeers(_ => None) {
      override def publish(block: BlockName, bytes: Array[Byte]): Unit =
        throw new OutOfMemoryError("no heap")
    }
    for (
      (peers, end) <- Seq[(Peers, Executor => Unit)](
        NoPeers -> (executor => assert(executor.agent.obey(Orders(1, Map.empty, Vector.empty)))),
        broken -> (executor => {
          intercept[OutOfMemoryError](executor.agent.publisher.publishNext()); ()
        })
      )
    ) assert(kept(spill, peers)(end) > stateBytes / 2)
  }
}
