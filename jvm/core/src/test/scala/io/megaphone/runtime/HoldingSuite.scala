// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Committer
import io.megaphone.format.{Chain, FileName, StateName, StoreId, WorkerId}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.{HeapBudget, HeapBudgetSuite, SpillFiles}
import io.megaphone.plan.StepId
import io.megaphone.state.{Holding, LoadedBin, Registry, Remote, ReplicaKey, SubBin}

/** Schedules of a few steps that once broke a holding; the simulation found them. */
class HoldingSuite extends AnyFunSuite with SmallStore {
  test(
    "a bin that a target took from this executor leaves older holdings of its worker elsewhere, too"
  ) {
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

  test("a large commit that is undone and accepted after all is read from its file") {
    for ((mebibytes, isKept) <- Seq(1 -> true, 33 -> false)) {
      val (store, registry) = (new Store, new Registry)
      val (first, next) = (store.turn(0, before, before), store.turn(1, before, before))
      val lease = store.lease(registry, 0, 1)
      store.open(registry, lease, first)
      lease.holding.touch(0)
      for (i <- 0 until mebibytes)
        lease.holding.log(0).put(0, Array(i.toByte), 0, 1, new Array[Byte](1 << 20), 0, 1 << 20)
      store.commit(lease, first)
      lease.holding.undoHead()
      assert(lease.holding.head.isEmpty && lease.holding.keyCount == 0)
      assert(lease.holding.redo(next.nameOf(0)) == isKept)
      store.open(registry, lease, next)
      assert(lease.holding.base == next.nameOf(0) && lease.holding.keyCount == mebibytes)
    }
  }

  test("a bin is touched once, though its first touch may leave no record") {
    val store = new Store
    val lease = store.lease(new Registry, 0, 1)
    store.open(new Registry, lease, store.turn(0, before, before))
    lease.holding.touch(0)
    lease.holding.log(0).remove(0, key, 0, key.length)
    put(lease.holding, 0, 1)
    assert(lease.holding.touched == Set(0))
    assert(store.commit(lease, store.turn(0, before, before)).frames.map(_.bin) == Vector(0))
  }

  test(
    "a commit of all bins has an image of each, touched or not, and a chain begins there"
  ) {
    val store = new Store
    val registry = new Registry
    val lease = store.lease(registry, 0, 1)
    val turns = (0 to 2).map(v => store.turn(v.toLong, before, before))
    store.open(registry, lease, turns(0))
    put(lease.holding, 0, 1)
    put(lease.holding, 2, 1)
    store.commit(lease, turns(0))
    store.open(registry, lease, turns(1))
    put(lease.holding, 0, 2)
    val whole = store.commit(lease, turns(1), isWhole = true)
    assert(whole.frames.map(f => (f.bin, f.isImage)) == Vector(0 -> true, 2 -> true))
    store.open(registry, lease, turns(2))
    put(lease.holding, 2, 3)
    val last = store.commit(lease, turns(2))
    assert(lease.holding.chain(0).frameCount == 1 && lease.holding.chain(2).frameCount == 2)
    val recovered = store.recovery.load(last.file, Seq(0, 2), before.contentHash).bins
    assert(get(recovered(0).log) == Some(2.toByte) && get(recovered(2).log) == Some(3.toByte))
  }

  test(
    "undoing a commit restores the chains before it, redoing it those it made, of tails and images"
  ) {
    val due = Committer.Limits().framesMax // from so many frames on, an image follows
    for (
      (isWhole, commits, frames) <- Seq(
        (false, 1, Seq(2, 1)),
        (true, 1, Seq(1, 1)),
        (false, due, Seq(1, 1))
      )
    ) {
      val store = new Store
      val registry = new Registry
      val lease = store.lease(registry, 0, 1)
      def turn(commit: Int) = store.turn(commit.toLong, before, before)
      def chains = Seq(0, 2).map(lease.holding.chain)
      for (i <- 0 until commits) {
        store.open(registry, lease, turn(i))
        put(lease.holding, 0, 1)
        store.commit(lease, turn(i))
      }
      store.open(registry, lease, turn(commits))
      val old = chains
      put(lease.holding, 0, 2)
      put(lease.holding, 2, 2)
      val name = store.commit(lease, turn(commits), isWhole).file.name
      val made = chains
      assert(
        made.map(_.frameCount) == frames && made.map(_.isImage) == Seq(
          isWhole || commits == due,
          isWhole
        )
      )
      lease.holding.undoHead()
      assert(chains == old && chains.map(_.tailBytes) == old.map(_.tailBytes))
      assert(lease.holding.redo(name) && chains == made)
      lease.holding.undoHead()
      assert(chains == old)
    }
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
    assert(second.holding eq registry.holding(WorkerId(StoreId(0, "default").in("run"), 0)).get)
  }

  /** Runs `one` until it waits for the disk, then the other, until that ends or waits for `one`.
    * Returns whether it has ended. Both have ended after that.
    */
  private def whileDiskHangs(disk: SpillFiles)(one: => Unit)(other: => Unit): Boolean = {
    val threads = Seq(new Thread(() => one), new Thread(() => other))
    val hasEnded = disk.synchronized { // so nobody writes
      threads.map { thread =>
        thread.start()
        val ends = Set(Thread.State.BLOCKED, Thread.State.TERMINATED)
        while (!ends(thread.getState)) Thread.onSpinWait()
        thread.getState == Thread.State.TERMINATED
      }
    }
    threads.foreach(_.join(60000))
    assert(!hasEnded.head && threads.forall(!_.isAlive))
    hasEnded.last
  }

  private def row(i: Int) = (s"key $i".getBytes, new Array[Byte](4096))

  test("a head is settled for a target before or after the rest comes in, not meanwhile") {
    HeapBudgetSuite.withFolder { folder =>
      val disk = new SpillFiles(Seq(folder))
      val holding = new Holding(1, 4)
      def subBin(rows: Range) = {
        val log = new BinLog
        rows.map(row).foreach { case (k, v) => log.put(0, k, 0, k.length, v, 0, v.length) }
        SubBin(rows.start, log.image())
      }
      val (name, next) = (StateName(1, ""), StateName(2, ""))
      val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, StepId("plan", 0, 0))
      val remote = new Remote(key, name, Chain.Empty, None, keys = 30)
      holding.put(LoadedBin(0, new BinLog(new HeapBudget(1, disk)), Chain.Empty, Some(remote)))
      holding.put(2, new BinLog, Chain.Empty)
      holding.restart(name, Vector.empty)
      holding.takeIn(0, subBin(0 until 10))
      put(holding, 0, 1)
      holding.commit(next, FileName(1, next), Nil)
      val hasLent = whileDiskHangs(disk) {
        holding.takeIn(0, subBin(10 until 20))
        ()
      } { assert(holding.lend(next, Seq(2)).isDefined) }
      assert(!hasLent && holding.base == next && holding.head.isEmpty)
      val log = holding.log(0)
      assert(log.keyCount == 21 && log.prefix().bytes == log.liveBytes, "all is settled")
    }
  }

  test("names are told while a holding is spilled to a disk that hangs") {
    HeapBudgetSuite.withFolder { folder =>
      val disk = new SpillFiles(Seq(folder))
      val (store, registry) = (new Store, new Registry(budget = new HeapBudget(1L << 40, disk)))
      val turn = store.turn(0, before, before)
      val lease = store.lease(registry, 0, 1)
      store.open(registry, lease, turn)
      (0 until 20).map(row).foreach { case (k, v) => put(lease.holding, 0, k, v) }
      store.commit(lease, turn)
      var told = Set.empty[StateName]
      val hasTold = whileDiskHangs(disk)(lease.holding.spill(Long.MaxValue)) {
        registry.keepRuns(_ => Some(1))
        told ++= registry.holding(WorkerId(turn.key, 0)).flatMap(_.head)
      }
      assert(hasTold && told == Set(StateName(1, "")) && lease.holding.bytesOnDisk > 0)
    }
  }
}
