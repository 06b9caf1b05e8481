// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException
import java.nio.file.Paths
import java.util.concurrent.{CountDownLatch, FutureTask, Semaphore, TimeUnit}
import java.util.concurrent.atomic.AtomicLong

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{AtomicOutput, Recovery, StateFiles}
import io.megaphone.format.{
  Compression, Compressions, FileName, FileSource, StateName, StoreId, WorkerId
}
import io.megaphone.log.memory.{HeapBudget, SpillException, SpillFiles}
import io.megaphone.pace.Clock
import io.megaphone.plan.RoutingTable
import io.megaphone.state.{Attempt, Holding, Lease, Registry}
import io.megaphone.transfer.{Preparer, StandbyDuty, StandbyKeeper}
import io.megaphone.transfer.StandbyKeeper.{Busy, Grown, Whole}

/** A worker's holding on an executor where the worker does not run. */
class StandbyKeeperSuite extends AnyFunSuite with SmallStore {
  private val worker = WorkerId(StoreId(0, "default").in("run"), 0)

  private def dutyAt(version: Long, liveBytes: Long = 0) = StandbyDuty(
    worker,
    before.binsOf(0).toVector,
    before.bins,
    StateName(version, ""),
    before.contentHash,
    liveBytes
  )

  /** Workers 0 and 1 on one executor, and a standby of worker 0 on another. */
  private final class Scene(clock: Clock = Clock.System) {
    val store = new Store
    private val source = new Registry
    var next = 0L // batch
    val target = new Registry(clock = clock)
    val keeper = new StandbyKeeper(target, store.recovery, store.recovery, sliceBytes = 100)
    def standby: Holding = target.holding(worker).get

    /** Runs a batch, which writes its number into each bin. */
    def run(): Unit = {
      batch(store, source, next, 2 * next + 1, before, before, next.toByte)
      next += 1
    }

    /** Opens worker 0 on the standby's executor, for the next batch. */
    def promoted(): Holding = {
      val lease = store.lease(target, 0, 1000)
      store.open(target, lease, store.turn(next, before, before))
      lease.holding
    }

    /** The same, while no file can be read. */
    def promotedFromMemory(): Holding = {
      store.readsLeft = 1
      val holding = promoted()
      store.readsLeft = -1
      holding
    }
  }

  private def newest(holding: Holding) =
    before.binsOf(0).map(bin => get(holding.log(bin)).get).toSet

  test("a standby is made, follows its worker, and is opened with no file read") {
    val scene = new Scene
    scene.run()
    scene.run()
    assert(scene.keeper(dutyAt(2)) == Grown && scene.keeper(dutyAt(2)) == Whole)
    assert(scene.standby.base == StateName(2, "") && newest(scene.standby) == Set(1))
    scene.run()
    scene.run()
    assert(scene.keeper(dutyAt(4)) == Whole && newest(scene.promotedFromMemory()) == Set(3))
  }

  test("a standby that is behind is opened with the tails that it lacks") {
    val scene = new Scene
    scene.run()
    scene.keeper(dutyAt(1))
    scene.run()
    assert(intercept[IOException](scene.promotedFromMemory()).getMessage.contains("lost"))
    scene.store.readsLeft = -1
    assert(newest(scene.promoted()) == Set(1))
  }

  test("the files that a standby lacked are told, and are no recovery") {
    val scene = new Scene
    scene.run()
    scene.keeper(dutyAt(1))
    def opened() = {
      val lease = scene.store.lease(scene.target, 0, 1000)
      try scene.store.opened(scene.target, lease, scene.store.turn(scene.next, before, before))
      finally lease.release()
    }
    assert(!opened().isNews)
    scene.run()
    val behind = opened()
    assert(behind.isNews && behind.bytesFromCheckpoint > 0 && !behind.isRecovered)
  }

  test("a standby grows bin by bin, and a task loads those that it lacks") {
    val scene = new Scene
    scene.run()
    val duty = dutyAt(1, liveBytes = 200) // a bin has as many bytes as a slice
    assert(scene.keeper(duty) == Grown && scene.standby.bins.size == 1)
    assert(!StandbyKeeper.isWhole(scene.standby, duty))
    scene.run()
    val holding = scene.promoted()
    assert(holding.bins.toSet == before.binsOf(0).toSet && newest(holding) == Set(1))
  }

  test("a standby whose worker runs here is left alone; a head that was accepted is settled") {
    val scene = new Scene
    scene.run()
    val lease = scene.store.lease(scene.target, 0, 1000)
    assert(scene.keeper(dutyAt(1)) == Busy)
    val turn = scene.store.turn(1, before, before)
    scene.store.open(scene.target, lease, turn)
    put(lease.holding, 0, 7)
    assert(scene.keeper(dutyAt(1)) == Busy)
    scene.store.commit(lease, turn)
    lease.release()
    assert(scene.keeper(dutyAt(1)) == Whole && scene.standby.head.nonEmpty, "not settled yet")
    assert(scene.keeper(dutyAt(2)) == Whole && scene.standby.head.isEmpty)
    assert(scene.standby.base == StateName(2, "") && get(scene.standby.log(0)).contains(7.toByte))
  }

  test("a first commit that is not settled yet is left alone") {
    val scene = new Scene
    val lease = scene.store.lease(scene.target, 0, 1000)
    val turn = scene.store.turn(0, before, before)
    scene.store.open(scene.target, lease, turn)
    before.binsOf(0).foreach(bin => put(lease.holding, bin, 7))
    scene.store.commit(lease, turn)
    lease.release()
    assert(scene.standby.lineage.isEmpty)
    assert(scene.keeper(dutyAt(0)) == Whole && scene.standby.head.contains(StateName(1, "")))
  }

  test("a standby that no tails lead on from is made anew") {
    val scene = new Scene
    scene.run()
    scene.keeper(dutyAt(1))
    for (_ <- 1 to Preparer.TailsMax + 1) scene.run()
    val duty = dutyAt(Preparer.TailsMax + 2L)
    assert(scene.keeper(duty) == Grown && scene.keeper(duty) == Whole)
    assert(newest(scene.standby) == Set((Preparer.TailsMax + 1).toByte))
  }

  test("a standby whose files cannot be read for a moment stays as it is") {
    val scene = new Scene
    scene.run()
    scene.keeper(dutyAt(1))
    scene.run()
    val before = scene.standby
    for (reads <- 1 to 3) {
      scene.store.readsLeft = reads
      assertThrows[IOException](scene.keeper(dutyAt(2)))
      assert((scene.standby eq before) && scene.standby.base == StateName(1, ""))
    }
    scene.store.readsLeft = -1
    assert(scene.keeper(dutyAt(2)) == Whole && newest(scene.standby) == Set(1))
  }

  test("after a keeper that failed in whatever way, a task has the lease at once") {
    val scene = new Scene
    scene.run()
    scene.keeper(dutyAt(1))
    scene.run()
    val failing = new Recovery(
      scene.store.files,
      Compressions(Compression.None),
      check = _ => throw new OutOfMemoryError("on purpose")
    )
    val keeper = new StandbyKeeper(scene.target, failing, failing, sliceBytes = 100)
    intercept[OutOfMemoryError](keeper(dutyAt(2)))
    val free = scene.target.tryLease(worker, before.bins, new Attempt(1, () => true))
    assert(free.nonEmpty)
    free.foreach(_.end())
    assert(newest(scene.promoted()) == Set(1))
  }

  test("a worker with no bins is stood by for all the same") {
    val scene = new Scene
    scene.run()
    val duty = dutyAt(1).copy(bins = Vector.empty)
    assert(scene.keeper(duty) == Grown && scene.keeper(duty) == Whole)
  }

  test(
    "a task that waits comes before the keeper's next tail; a keeper that hangs is left behind"
  ) {
    val scene = new Scene
    scene.run()
    scene.keeper(dutyAt(1))
    for (_ <- 1 to 3) scene.run()
    val (isReading, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    val hanging = new StateFiles {
      override def create(file: FileName): AtomicOutput = scene.store.files.create(file)
      override def open(file: FileName): FileSource = {
        isReading.countDown()
        goOn.await()
        scene.store.files.open(file)
      }
    }
    val recovery = new Recovery(hanging, Compressions(Compression.None))
    val outcome =
      new FutureTask(() => new StandbyKeeper(scene.target, recovery, recovery)(dutyAt(4)))
    val keeping = new Thread(outcome)
    keeping.start()
    try {
      isReading.await()
      val before = scene.standby
      val lease = scene.store.lease(scene.target, 0, 1000, waitMs = 60000)
      assert((lease.holding ne before) && keeping.isAlive)
      scene.store.open(scene.target, lease, scene.store.turn(4, this.before, this.before))
      assert(newest(lease.holding) == Set(3))
      goOn.countDown()
      outcome.get(60, TimeUnit.SECONDS) // it has written to what nobody reads
      assert(scene.standby eq lease.holding)
      assert(newest(lease.holding) == Set(3))
    } finally { goOn.countDown(); keeping.join(60000) }
  }

  test("a task waits for a keeper as long as that gets on, and opens what it has brought") {
    val now = new AtomicLong
    val looks = new Looks(() => now.get)
    val scene = new Scene(looks)
    scene.run()
    scene.keeper(dutyAt(1))
    scene.run()
    val (isRead, goOn) = (new Semaphore(0), new Semaphore(0))
    val slowly = (_: Array[Byte]) => { isRead.release(); goOn.acquire() }
    val tails = new Recovery(scene.store.files, Compressions(Compression.None), check = slowly)
    val before = scene.standby
    val outcome =
      new FutureTask(() => new StandbyKeeper(scene.target, tails, scene.store.recovery)(dutyAt(2)))
    val opening = new FutureTask(() => scene.store.lease(scene.target, 0, 1000, waitMs = 60000))
    val threads = Seq(new Thread(outcome), new Thread(opening))
    threads.head.start()
    isRead.acquire()
    threads.last.start()
    try {
      for (isLast <- Seq(false, true)) { // of the records of two bins
        now.addAndGet(TimeUnit.SECONDS.toNanos(10)) // the process stands still
        looks.allow(12, opening) // it would look 20 times in vain
        assert(!opening.isDone)
        goOn.release()
        if (!isLast) isRead.acquire()
      }
      assert(outcome.get(60, TimeUnit.SECONDS) == Whole)
      looks.allowAll()
      assert(opening.get(60, TimeUnit.SECONDS).holding eq before)
      assert(before.base == StateName(2, "") && newest(before) == Set(1))
    } finally { looks.allowAll(); goOn.release(2); threads.foreach(_.join(60000)) }
  }

  test("who keeps a standby lets a task that waits go first") {
    val scene = new Scene
    scene.run()
    scene.keeper(dutyAt(1))
    val other = new Attempt(7, () => true)
    val held = scene.target.lease(worker, before.bins, other, 0)
    val waiting = new FutureTask(() => scene.store.lease(scene.target, 0, 1000, waitMs = 60000))
    val task = new Thread(waiting)
    task.start()
    while (task.getState != Thread.State.TIMED_WAITING) Thread.onSpinWait()
    held.release() // the task has not come back to the monitor yet, or has the lease
    val keeper = new Attempt(-1, () => true, isTask = false)
    assert(scene.target.tryLease(worker, before.bins, keeper).isEmpty)
    assert(waiting.get(60, TimeUnit.SECONDS).attempt.id == 1000)
  }

  test("bins that leave a worker stay for the standby of their new one") {
    val store = new Store
    val (here, elsewhere) = (new Registry, new Registry)
    val gaining = WorkerId(worker.store, 1)
    val keeper = new StandbyKeeper(here, store.recovery, store.recovery)
    var attempt = 0L
    def run(worker: Int, version: Long, from: RoutingTable, to: RoutingTable): Unit = {
      attempt += 1
      val turn = store.turn(version, from, to)
      val lease = store.lease(if (worker == 0) here else elsewhere, worker, attempt)
      store.open(if (worker == 0) here else elsewhere, lease, turn)
      to.binsOf(worker).foreach(put(lease.holding, _, version.toByte))
      store.commit(lease, turn)
      lease.end()
    }
    def runBoth(version: Long, from: RoutingTable, to: RoutingTable): Unit =
      (0 to 1).foreach(run(_, version, from, to))
    def dutyOf(table: RoutingTable, version: Long) = StandbyDuty(
      gaining,
      table.binsOf(1).toVector,
      table.bins,
      StateName(version, ""),
      table.contentHash,
      0
    )
    here.keepRuns(_ => Some(0), _ == gaining)
    runBoth(0, before, before)
    assert(keeper(dutyOf(before, 1)) == Grown)
    runBoth(1, before, after) // takes bin 0 from worker 0 to worker 1
    runBoth(2, after, after)
    assert(here.holding(worker).forall(!_.has(0)))
    assert(keeper(dutyOf(after, 3)) == Whole, "nothing was loaded")
    val standby = here.holding(gaining).get
    for (bin <- after.binsOf(1)) assert(get(standby.log(bin)).contains(2.toByte))
    assert(here.takeDeparted(worker.store, 0, standby.chain(0)).isEmpty, "it has gone")
    // And there it is of use: the standby is opened, and all files name what it has.
    runBoth(3, after, after)
    assert(keeper(dutyOf(after, 4)) == Whole)
    run(0, 4, after, after)
    val promoted = store.lease(here, 1, 1000)
    store.open(here, promoted, store.turn(4, after, after))
    store.commit(promoted, store.turn(4, after, after))
    assert(
      get(store.recovery.load(FileName(1, StateName(5, "")), Seq(0), after.contentHash).bins(0).log)
        .contains(3.toByte)
    )
  }

  test("a standby for which there is no room is none, and the next one may be") {
    val store = new Store
    val source = new Registry
    val lease: Lease = store.lease(source, 0, 1)
    store.open(source, lease, store.turn(0, before, before))
    for (i <- 0 until 400) put(lease.holding, 0, s"$i".getBytes, new Array[Byte](4096))
    store.commit(lease, store.turn(0, before, before))
    def keeperWith(bytes: Long) = {
      val budget = new HeapBudget(bytes, new SpillFiles(Seq(Paths.get("/nowhere"))))
      val recovery = new Recovery(store.files, Compressions(Compression.None), budget = budget)
      val target = new Registry(budget = budget)
      target -> new StandbyKeeper(target, recovery, recovery)
    }
    val (tight, refusing) = keeperWith(1 << 20)
    assertThrows[SpillException](refusing(dutyAt(1)))
    tight.measure()
    assert(tight.holding(worker).forall(_.bins.isEmpty) && tight.budget.heldBytes < 4096)
    val (_, roomy) = keeperWith(1 << 24)
    assert(roomy(dutyAt(1)) == Grown)
  }
}
