// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.{FutureTask, Semaphore, TimeUnit}

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{
  Compression, Compressions, ExecutorAddress, StateName, StoreId, WorkerId
}
import io.megaphone.log.BinLog
import io.megaphone.pace.Clock
import io.megaphone.plan.Move
import io.megaphone.state.{Holding, Lease, LoadedBin, Registry, Remote}
import io.megaphone.transfer.{BlockName, Coming, Peers, TransferBlocks}

/** How a worker takes bins that other workers had. */
class AdopterSuite extends AnyFunSuite with LastTails {

  test("the last tails of all replicas are pulled at once, under one deadline") {
    val moving = new Moving()
    val peer = new moving.Peer(3, 1, 2)
    val arrivals = adopt(moving, peer)
    assert(peer.asked.toSeq == Seq(Seq(1, 2, 3) -> sources.tailDeadlineMs))
    assert(arrivals.bytesFromPeer == 3000 + (1 to 3).map(moving.bytesOf).sum)
    assert(arrivals.bytesFromCheckpoint / 1000 == 30, "and the worker's own bin")
  }

  test("a large last tail is pulled part by part") {
    val moving = new Moving(partBytes = 1)
    assert(moving.tails.values.forall(_.size == 2))
    val arrivals = adopt(moving, new moving.Peer(1, 2, 3))
    assert(arrivals.bytesFromPeer == 3000 + (1 to 3).map(moving.bytesOf).sum)
  }

  test(
    "a tail that does not come is read from its file, and so is one whose second part does not"
  ) {
    val moving = new Moving(partBytes = 1)
    val peer = new moving.Peer(1, 2) {
      override def pull(block: BlockName, at: ExecutorAddress, ms: Long): Option[Array[Byte]] =
        super.pull(block, at, ms).filter(_ => block.source == 1)
    }
    val arrivals = adopt(moving, peer)
    val come = 3000 + moving.bytesOf(1) + moving.tails(2)(0).length
    assert(arrivals.bytesFromPeer == come)
  }

  test("a replica that lacks bins is not taken, and no tail is pulled for it") {
    val moving = new Moving()
    import moving.{store, target}
    val lacking = new Holding(1, 4)
    lacking.restart(StateName(1, ""), Vector.empty)
    target.putReplica(keyOf(1), lacking, lacked = Vector(1))
    val peer = new moving.Peer(2, 3)
    val zero = store.lease(target, 0, 20)
    val arrivals = new Opener(target, store.recovery, store.handOver, peer)
      .open(zero, store.turn(2, four, all), sources.copy(imageDeadlineMs = 0))
    assert(peer.asked.toSeq == Seq(Seq(2, 3) -> sources.tailDeadlineMs))
    assert(arrivals.binsFromPeer == 2 && arrivals.binsIn == 3 && target.replicasCount == 0)
    for (bin <- 0 to 3) assert(list(zero.holding.log(bin)) == Seq(2, 3))
  }

  /** Worker 0 takes the bins of all others. */
  private def adopt(moving: Moving, peers: Peers): Arrivals = {
    import moving.{store, target}
    val zero = store.lease(target, 0, 20)
    val arrivals = new Opener(target, store.recovery, store.handOver, peers)
      .open(zero, store.turn(2, four, all), sources)
    assert(arrivals.binsFromPeer == 3 && arrivals.binsIn == 3 && target.replicasCount == 0)
    for (bin <- 0 to 3) assert(list(zero.holding.log(bin)) == Seq(2, 3))
    arrivals
  }

  test("all images are pulled under one deadline, so one executor that hangs costs no more") {
    val store = new Store
    batch(store, new Registry, 0, 1, four, four, 1)
    val asked = mutable.Buffer.empty[Int]
    val hanging = new SomePeers(_ => None) {
      override def pull(
          block: BlockName,
          address: ExecutorAddress,
          deadlineMs: Long
      ): Option[Array[Byte]] = {
        asked += block.source
        val end = System.nanoTime + deadlineMs * 1000000
        while (System.nanoTime < end) Thread.onSpinWait()
        None
      }
    }
    val target = new Registry
    val zero = store.lease(target, 0, 20)
    val arrivals = new Opener(target, store.recovery, store.handOver, hanging)
      .open(zero, store.turn(1, four, all), sources)
    assert(asked.toSeq == Seq(1), "nothing is left of the deadline for the others")
    assert(arrivals.binsFromCheckpoint == 3 && arrivals.binsIn == 3)
    assert((0 to 3).map(bin => get(zero.holding.log(bin))) == Seq.fill(4)(Some(1.toByte)))
  }

  test("a source that hangs leaves time for the images of the others") {
    val store = new Store
    batch(store, new Registry, 0, 1, four, four, 1)
    val asked = mutable.Buffer.empty[(Int, Long)]
    val peers = new SomePeers(_ => None) {
      override def pull(block: BlockName, at: ExecutorAddress, ms: Long): Option[Array[Byte]] = {
        asked += block.source -> ms
        None
      }
    }
    val target = new Registry
    val zero = store.lease(target, 0, 20)
    new Opener(target, store.recovery, store.handOver, peers)
      .open(zero, store.turn(1, four, all), sources.copy(imageDeadlineMs = 60000))
    assert(asked.toSeq == (1 to 3).map(_ -> 10000L))
  }

  test("a task has the next part of an image on its way while it takes one in") {
    val store = new Store
    val source = new Registry
    batch(store, source, 0, 1, before, before, 7)
    val one = store.lease(source, 1, 10)
    store.open(source, one, store.turn(1, before, before))
    val image = partsOf(
      new TransferBlocks(Compressions(Compression.None), partBytes = 1)
        .image(TransferBlocks.snapshot(one.holding, Seq(1, 3)))
    ).toMap
    val damaged = image(0).updated(image(0).indexOfSlice(key), 0.toByte)
    def taking(parts: Map[Int, Array[Byte]]): (Arrivals, Seq[String]) = {
      val events = mutable.Buffer.empty[String]
      val peers = new SomePeers(_ => None) {
        override def pulling(block: BlockName, at: ExecutorAddress, ms: Long) = {
          events += s"asks for ${block.part}"
          new Coming[Array[Byte]] {
            override def await(): Option[Array[Byte]] = parts.get(block.part)
            override def cancel(): Unit = { events += s"cancels ${block.part}"; () }
          }
        }
      }
      val target = new Registry
      val zero = store.lease(target, 0, 20)
      val moved = before.moved(Seq(Move(1, 0), Move(3, 0)), 1, 2)
      val arrivals = new Opener(target, store.recovery, store.handOver, peers)
        .open(zero, store.turn(1, before, moved), sources.copy(imageDeadlineMs = 60000))
      assert((0 to 3).map(bin => get(zero.holding.log(bin))) == Seq.fill(4)(Some(7.toByte)))
      (arrivals, events.toSeq)
    }
    val (whole, asked) = taking(image)
    assert(whole.binsFromPeer == 2 && asked == Seq("asks for 0", "asks for 1"))
    val (fromFiles, given) = taking(image.updated(0, damaged))
    assert(fromFiles.binsFromPeer == 0)
    assert(given == Seq("asks for 0", "asks for 1", "cancels 1"))
  }

  test("all stores of a task together wait for a frozen executor once") {
    var passedMs = 0L
    val clock = new Clock {
      override def nanoTime: Long = passedMs * 1000000
      override def waitOn(monitor: Object, nanos: Long): Unit = ()
    }
    val frozen = new SomePeers(_ => None) {
      override def pull(block: BlockName, at: ExecutorAddress, ms: Long): Option[Array[Byte]] = {
        passedMs += ms
        None
      }
    }
    val peers = new ImpatientPeers(frozen, clock)
    for (_ <- 1 to 4) { // of a join of two streams
      val store = new Store
      batch(store, new Registry, 0, 1, four, four, 1)
      val target = new Registry
      val zero = store.lease(target, 0, 20)
      val direct = Sources(Map(1 -> step), Map(1 -> address), 1000, 30000)
      new Opener(target, store.recovery, store.handOver, peers)
        .open(zero, store.turn(1, four, all), direct)
      assert((0 to 3).map(bin => get(zero.holding.log(bin))) == Seq.fill(4)(Some(1.toByte)))
    }
    assert(passedMs == 10000, "as long as for an answer")
  }

  /** Two workers of two bins each. Worker 0, which is about to take those of worker 1, runs where
    * worker 1 ran until its last batch.
    *
    * @param read
    *   is called with the records of each frame that worker 0's task reads
    */
  private final class StoodBy(
      clock: Clock = Clock.System,
      read: Array[Byte] => Unit = _ => ()
  ) {
    val store = new Store
    val target = new Registry(clock = clock)
    batch(store, target, 0, 1, before, before, 1)
    private val elsewhere = new Registry
    for ((registry, worker) <- Seq(target, elsewhere).zipWithIndex) {
      val (lease, turn) =
        (store.lease(registry, worker, 10L + worker), store.turn(1, before, before))
      store.open(registry, lease, turn)
      before.binsOf(worker).foreach(put(lease.holding, _, 2))
      store.commit(lease, turn)
      lease.end()
    }
    val standby: Holding = target.holding(WorkerId(StoreId(0, "default").in("run"), 1)).get
    val zero: Lease = store.lease(target, 0, 20)
    def adoptAll(): Arrivals = {
      val moved = before.moved(before.binsOf(1).map(Move(_, 0)), 1, 2)
      val recovery = new Recovery(store.files, Compressions(Compression.None), check = read)
      new Opener(target, recovery, store.handOver, NoPeers)
        .open(zero, store.turn(2, before, moved), Sources.None)
    }
    def isAdopted: Boolean =
      (0 to 3).forall(bin => get(zero.holding.log(bin)).contains(2.toByte))
  }

  test("a worker's own task waits for who takes bins of its standby as long as that gets on") {
    val (looks, isRead, goOn) = (new Looks, new Semaphore(0), new Semaphore(0))
    val scene = new StoodBy(looks, _ => { isRead.release(); goOn.acquire() })
    import scene._
    val adopting = new FutureTask(() => adoptAll())
    val opening = new FutureTask(() => store.lease(target, 1, 1000, waitMs = 60000))
    val threads = Seq(adopting, opening).map(new Thread(_))
    threads.head.start()
    try {
      isRead.acquire()
      threads.last.start()
      for (isLast <- Seq(false, true)) { // of the records of two bins
        looks.allow(12, opening) // it would look 20 times in vain
        assert(!opening.isDone)
        goOn.release()
        if (!isLast) isRead.acquire()
      }
      assert(adopting.get(60, TimeUnit.SECONDS).binsRelabelled == 2 && isAdopted)
      looks.allowAll()
      assert(opening.get(60, TimeUnit.SECONDS).holding eq standby)
    } finally { looks.allowAll(); goOn.release(2); threads.foreach(_.join(60000)) }
  }

  test("a standby whose bins are incomplete is left as it is") {
    val scene = new StoodBy()
    import scene._
    standby.settle()
    val key = keyOf(1)
    val remote = new Remote(key, standby.base, standby.chain(3), None, keys = 1)
    standby.put(LoadedBin(3, new BinLog, standby.chain(3), Some(remote)))
    val arrivals = adoptAll()
    assert(arrivals.binsFromCheckpoint == 2 && isAdopted)
    assert(standby.base == StateName(1, "") && standby.incomplete.map(_._1) == Vector(3))
  }

  test("of a standby that was dropped since its step was decided, bins come from files") {
    val scene = new StoodBy()
    import scene._
    standby.settle()
    val worker = WorkerId(StoreId(0, "default").in("run"), standby.worker)
    target.keepRuns(_ => Some(standby.base.version), standsBy = _ == worker)
    assert(target.dropStandbys() == Vector(worker))
    val arrivals = adoptAll()
    assert(arrivals.binsFromCheckpoint == 2 && arrivals.binsRelabelled == 0 && isAdopted)
  }
}
