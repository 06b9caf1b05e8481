// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.{CountDownLatch, Executors, FutureTask, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.AtomicLong

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{AtomicOutput, Recovery, StateFiles}
import io.megaphone.errors.DetachedLeaseException
import io.megaphone.format.{
  Compression, Compressions, ExecutorAddress, FileName, FileSource, StateName, StoreId, WorkerId
}
import io.megaphone.log.KeyReader
import io.megaphone.pace.Clock
import io.megaphone.plan.StepId
import io.megaphone.state.{Attempt, Holding, Lease, Registry, ReplicaKey, Slot}
import io.megaphone.transfer.{Preparer, ReplicaDuty}

class RegistrySuite extends AnyFunSuite with SmallStore {

  test(
    "a holding is dropped when its run ends or no files lead on from it; a leased one stays"
  ) {
    val store = new Store
    val registry = new Registry(behindMax = 3)
    val (free, leased) = (store.lease(registry, 0, 1), store.lease(registry, 1, 2))
    Seq(free, leased).foreach(store.open(registry, _, store.turn(0, before, before)))
    store.commit(free, store.turn(0, before, before))
    free.release()
    registry.keepRuns(_ => Some(3))
    assert(registry.holdingsCount == 2)
    registry.keepRuns(_ => Some(4))
    assert(registry.holdingsCount == 1)
    registry.keepRuns(_ => None)
    assert(registry.holdingsCount == 1)
    leased.release()
    registry.keepRuns(_ => None)
    assert(registry.isEmpty)
  }

  test("who has just begun does not replace who knows how to read a store's keys") {
    val registry = new Registry
    val store = StoreId(0, "default").in("run")
    def reader(hash: Int): () => KeyReader = () => (_, _, _, _) => hash
    def hashOf = registry.keyReaderOf(store).map(_.hashOf(0, Array.emptyByteArray, 0, 0))
    assert(hashOf.isEmpty)
    registry.offerKeyReader(store, reader(1))
    registry.offerKeyReader(store, reader(2))
    assert(hashOf.contains(1))
    registry.useKeyReader(store, reader(3))
    registry.offerKeyReader(store, reader(4))
    assert(hashOf.contains(3))
  }

  test("a copy is free for a task while the copy's peer is waited for") {
    val store = new Store
    val registry = new Registry
    val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, StepId("plan", 0, 0))
    val copy = new Holding(0, 4)
    copy.restart(StateName(1, ""), Vector.empty)
    registry.putReplica(key, copy)
    val task = Executors.newSingleThreadExecutor()
    val peers = new SomePeers(_ => {
      val replica = registry.replica(key).get
      task.submit((() => replica.alone(_ => ())): Runnable).get(60, TimeUnit.SECONDS)
      None
    })
    val duty = ReplicaDuty(
      key,
      Vector.empty,
      4,
      Some(StateName(1, "")),
      StateName(2, ""),
      before.contentHash,
      Some(ExecutorAddress("peer", "host", 1)),
      None
    )
    val preparer = new Preparer(registry, store.recovery, store.recovery, store.handOver, peers, 0)
    try assert(preparer(duty).isInstanceOf[Preparer.Lost])
    finally task.shutdownNow()
    assert(registry.replica(key).isEmpty, "it could not be brought up, and is of no use")
  }

  test("a holding that a task leases while the orders are obeyed is not lost") {
    val store = new Store
    val registry = new Registry
    store.lease(registry, 0, 1).release()
    val worker = WorkerId(StoreId(0, "default").in("run"), 0)
    var lease = Option.empty[Lease]
    registry.keepRuns { _ =>
      lease = Some(store.lease(registry, 0, 2)) // the run is not known yet, and its task is here
      None
    }
    assert(registry.holding(worker).exists(_ eq lease.get.holding))
    lease.get.release()
    registry.keepRuns(_ => None)
    assert(registry.isEmpty)
  }

  test("a slot that has retired stays so, whoever else asks") {
    val slot = new Slot(WorkerId(StoreId(0, "default").in("run"), 0), 4, Clock.System)
    assert(slot.retireIf(_ => true))
    slot.retireIf(_ => false) // for another reason, before the first has removed it
    assert(slot.acquire(new Attempt(1, () => true), 0).isEmpty)
  }

  test("a holding that the orders drop while a task waits for it is made anew") {
    val store = new Store
    val registry = new Registry
    val worker = WorkerId(StoreId(0, "default").in("run"), 0)
    var drop: () => Unit = () => ()
    val killed = new Attempt(1, () => { drop(); false })
    val first = registry.lease(worker, 4, killed, 0)
    drop = () => { first.release(); registry.keepRuns(_ => None) }
    val next = store.lease(registry, 0, 2)
    assert(registry.holding(worker).exists(_ eq next.holding))
    assert(next.holding ne first.holding)
  }

  test("a thread of a killed task that goes on writing hits nobody") {
    val store = new Store
    val registry = new Registry
    batch(store, registry, 0, 1, before, before, 1)
    val killed = store.lease(registry, 0, 3)
    store.open(registry, killed, store.turn(1, before, before))
    val late = killed.holding
    put(late, 0, 2)
    killed.abandon()
    val next = store.lease(registry, 0, 4)
    store.open(registry, next, store.turn(1, before, before))
    put(late, 0, 3)
    append(late, 2, 4)
    assert(get(next.holding.log(0)).contains(1.toByte))
    put(next.holding, 0, 5)
    store.commit(next, store.turn(1, before, before))
    next.end()
    killed.abandon()
    val recovered =
      store.recovery.load(FileName(0, StateName(2, "")), Seq(0, 2), before.contentHash)
    assert(get(recovered.bins(0).log).contains(5.toByte))
    assert(get(recovered.bins(2).log).contains(1.toByte))
    assert(registry.holding(WorkerId(StoreId(0, "default").in("run"), 0)).exists(_ ne late))
  }

  test("a task goes on without a replica that the preparer reads a hanging file for") {
    withHangingPreparer { open =>
      val task = Executors.newSingleThreadExecutor()
      try {
        val opened = task.submit(() => open(1)).get(60, TimeUnit.SECONDS)
        assert(get(opened.holding.log(0)).contains(2.toByte), "read from files")
      } finally task.shutdownNow()
    }
  }

  test("a task that waits for a replica can be killed") {
    withHangingPreparer { open =>
      val killed = new Thread(() => { open(600000); () })
      killed.setUncaughtExceptionHandler((_, _) => ()) // it ends with InterruptedException
      killed.start()
      while (killed.getState != Thread.State.TIMED_WAITING) Thread.onSpinWait()
      killed.interrupt()
      killed.join(60000)
      assert(!killed.isAlive)
    }
  }

  /** Bin 0 moves to worker 1 at batch 3, and the executor has a replica of it at version 1, which
    * its preparer is about to bring forward by a file that hangs.
    *
    * @param body
    *   is given what opens worker 1, with a deadline for tails in milliseconds
    */
  private def withHangingPreparer(body: (Long => Lease) => Unit): Unit = {
    val store = new Store
    val registry = new Registry
    for (v <- 0 to 2) batch(store, registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    val (reading, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    val hanging = new StateFiles {
      override def create(file: FileName): AtomicOutput = store.files.create(file)
      override def open(file: FileName): FileSource = {
        reading.countDown(); goOn.await(); store.files.open(file)
      }
    }
    val step = StepId("plan", 0, 0)
    val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step)
    val (old, settled) = (StateName(1, ""), StateName(3, ""))
    val replica = new Holding(0, 4)
    val loaded = store.recovery.load(FileName(0, old), Seq(0), before.contentHash)
    loaded.bins.valuesIterator.foreach(replica.put)
    replica.restart(old, Vector.empty)
    val target = new Registry
    target.putReplica(key, replica)
    val recovery = new Recovery(hanging, Compressions(Compression.None))
    val preparer = new Preparer(target, recovery, recovery, store.handOver, NoPeers, 0)
    val duty = ReplicaDuty(key, Vector(0), 4, Some(old), settled, before.contentHash, None, None)
    val preparing = new Thread(() => { preparer(duty); () })
    preparing.start()
    try {
      reading.await()
      body { deadlineMs =>
        val one = store.lease(target, 1, 9)
        val sources = Sources(Map(0 -> step), Map.empty, deadlineMs, 1)
        val opener = new Opener(target, store.recovery, store.handOver, NoPeers)
        opener.open(one, store.turn(3, before, after), sources)
        one
      }
      assert(preparing.isAlive)
    } finally { goOn.countDown(); preparing.join(60000) }
  }

  private def untilAllWait(threads: Seq[Thread]): Unit =
    while (threads.exists(_.getState != Thread.State.TIMED_WAITING)) Thread.onSpinWait()

  private def someone(id: Long, isTask: Boolean) = new Attempt(id, () => true, isTask)

  test("a keeper that gets on for longer than a task may wait is left behind") {
    val nowMs = new AtomicLong
    val registry = new Registry(clock = new Clock {
      override def nanoTime: Long = nowMs.get * 1000000
      override def waitOn(monitor: Object, nanos: Long): Unit = Clock.System.waitOn(monitor, nanos)
    })
    val worker = WorkerId(StoreId(0, "default").in("run"), 0)
    val steps = new AtomicLong
    val slow = new Attempt(
      -1,
      () => true,
      isTask = false,
      () => { nowMs.addAndGet(20); steps.incrementAndGet() }
    )
    val keeper = registry.tryLease(worker, 4, slow).get
    val task = registry.lease(worker, 4, someone(1, isTask = true), waitMs = 60)
    assert((task.holding ne keeper.holding) && steps.get > 1)
    intercept[DetachedLeaseException](keeper.check())
  }

  test("all who wait to borrow a standby get it in turn, and its keeper only after them") {
    val registry = new Registry(borrowMs = 600000)
    val worker = WorkerId(StoreId(0, "default").in("run"), 0)
    val keeper = registry.tryLease(worker, 4, someone(-1, isTask = false)).get
    val borrowed = new AtomicInteger
    val tasks = (1 to 3).map { id =>
      new FutureTask[Boolean](() => {
        val lease = registry.borrow(worker, someone(id.toLong, isTask = false))(_ => false)
        borrowed.incrementAndGet()
        lease.foreach(_.release())
        lease.isDefined
      })
    }
    val threads = tasks.map(new Thread(_))
    threads.foreach { thread => thread.setDaemon(true); thread.start() }
    untilAllWait(threads)
    keeper.release()
    assert(
      registry.tryLease(worker, 4, someone(-1, isTask = false)).isEmpty || borrowed.get == 3
    )
    assert(tasks.forall(_.get(60, TimeUnit.SECONDS)))
  }

  test("who borrows waits for the worker's own task only until that has brought the state") {
    val registry = new Registry(borrowMs = 600000)
    val worker = WorkerId(StoreId(0, "default").in("run"), 0)
    val task = registry.lease(worker, 4, someone(1, isTask = true), waitMs = 0)
    val isThere = (holding: Holding) => holding.base.version == 5
    val borrowed = new FutureTask[Option[Lease]](() =>
      registry.borrow(worker, someone(2, isTask = false))(isThere)
    )
    val thread = new Thread(borrowed)
    thread.start()
    try {
      untilAllWait(Seq(thread))
      task.holding.restart(StateName(5, ""), Vector.empty)
      assert(borrowed.get(60, TimeUnit.SECONDS).isEmpty, "the task still has the lease")
    } finally task.release()
  }
}
