// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{
  Compression, Compressions, ExecutorAddress, FileName, Footer, StateName, StoreId, WorkerId
}
import io.megaphone.pace.{Clock, CopyRate, Hands, Throttle}
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.{
  BlockKind, BlockName, Peers, PushedFile, ReplicaDuty, StandbyDuty, StandbyKeeper, TransferBlocks
}
import io.megaphone.transfer.StandbyKeeper.Grown

/** What an executor does by the driver's orders, and says of it. */
class ExecutorAgentSuite extends AnyFunSuite with LastTails {
  private val moving = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step)

  private def agentOf(
      store: Store,
      registry: Registry,
      peers: Peers = NoPeers,
      clock: Clock = Clock.System,
      sliceBytes: Long = 1L << 20
  ) = new ExecutorAgent(
    registry,
    peers,
    store.handOver,
    FaultPoints.Off,
    (_, _, read) => new Recovery(store.files, Compressions(Compression.None), check = read),
    0,
    _ => (),
    new Throttle(clock),
    sliceBytes = sliceBytes
  )

  private def orders(counter: Long, settled: Long, duties: ReplicaDuty*) =
    Orders(counter, Map("run" -> LiveRun("root", settled, Set(step), None)), duties.toVector)

  /** Beside tasks a byte takes a second. */
  private val slowly =
    Map("run" -> LiveRun("root", 4, Set(step), None, CopyRate(besideTasks = 1, alone = 0)))

  /** Bin 0 of worker 0 at a version, to be had from files alone. */
  private def dutyAt(version: Long) = ReplicaDuty(
    moving,
    Vector(0),
    4,
    Some(StateName(version - 4, "")),
    StateName(version, ""),
    before.contentHash,
    None,
    None
  )

  /** All bins of worker 0 at a version. */
  private def standbyAt(version: Long) = StandbyDuty(
    WorkerId(moving.store, 0),
    before.binsOf(0).toVector,
    before.bins,
    StateName(version, ""),
    before.contentHash,
    0
  )

  test("orders whose runs were listed while a run began do not drop its state") {
    val (store, registry) = (new Store, new Registry)
    val agent = agentOf(store, registry)
    var counter = 0L
    def next(): Long = { counter += 1; counter }
    def begin(): Unit = { // the first task of a run
      assert(agent.notice(next()))
      store.lease(registry, 0, 1).release()
    }
    val late = Orders.of(() => next(), () => { begin(); Seq.empty })
    assert(!agent.obey(late) && registry.holdingsCount == 1)
    assert(agent.obey(Orders.of(() => next(), () => Seq.empty)) && registry.isEmpty)
  }

  test("a report names the replicas that are there, and no other") {
    val (store, registry) = (new Store, new Registry)
    val agent = agentOf(store, registry)
    for (v <- 0 to 4) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    agent.obey(orders(1, settled = 4, dutyAt(4)))
    assert(agent.report.ready.isEmpty)
    assert(agent.duties.forall(agent.prepare(_)), "it is news")
    assert(agent.report.ready == Seq(moving -> 4L))
    assert(!agent.duties.exists(agent.prepare(_)), "it is none")
    registry.dropReplica(moving) // a task of the step has taken it
    assert(agent.report.ready.isEmpty && agent.isBehind)
  }

  test("a report says why a replica could not be prepared five times in a row, until it can") {
    val (store, registry) = (new Store, new Registry)
    val agent = agentOf(store, registry)
    for (v <- 0 to 4) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    val told = mutable.Buffer.empty[Int]
    var counter = 0L
    def go(attempts: Int, readsLeft: Int): Unit = for (_ <- 1 to attempts) {
      store.readsLeft = readsLeft
      do {
        counter += 1
        agent.obey(orders(counter, settled = 4, dutyAt(4)))
      } while (agent.duties.isEmpty) // it rests
      try agent.duties.foreach(agent.prepare(_))
      catch { case _: IOException => () }
      told += agent.report.failing.size
    }
    go(6, readsLeft = 1)
    assert(told.toSeq == Seq(0, 0, 0, 0, 1, 1))
    val (key, reason) = agent.report.failing.head
    assert(key == moving && reason.contains("the connection was lost"))
    go(1, readsLeft = -1)
    assert(agent.report.failing.isEmpty && agent.report.ready == Seq(moving -> 4L))
  }

  test("an executor is behind while a replica is not ready or an image is not published") {
    val (store, registry) = (new Store, new Registry)
    val agent = agentOf(store, registry)
    for (v <- 0 to 4) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    assert(!agent.isBehind)
    agent.obey(orders(1, settled = 4, dutyAt(4)))
    assert(agent.isBehind, "there is no replica yet")
    agent.duties.foreach(agent.prepare(_))
    assert(!agent.isBehind, "it is ready, however long the step takes")
    agent.obey(orders(2, settled = 5, dutyAt(5)))
    assert(agent.isBehind, "its source has gone on")
    agent.duties.foreach(agent.prepare(_))
    val source = store.lease(registry, 0, 20)
    store.open(registry, source, store.turn(5, before, before))
    agent.publisher.queueImage(
      BlockName(moving.store, 0, 1, source.holding.base, BlockKind.Image, step),
      TransferBlocks.snapshot(source.holding, Seq(0))
    )
    assert(agent.isBehind, "the image is not published")
    agent.publisher.publishNext()
    assert(!agent.isBehind)
    agent.obey(orders(3, settled = 5))
    assert(!agent.isBehind)
  }

  test("what is copied for a plan keeps to the rate of its run, whichever way it goes") {
    val (store, clock) = (new Store, new Hands)
    val images = mutable.Map.empty[BlockName, Array[Byte]]
    val peers = new SomePeers(images.get) {
      override def publish(block: BlockName, bytes: Array[Byte]): Unit = images(block) = bytes
    }
    def agentWith(registry: Registry)(orders: Orders => Orders): ExecutorAgent = {
      val agent = agentOf(store, registry, peers, clock)
      agent.throttle.taskBegins()
      agent.obey(orders(Orders(1, slowly, Vector.empty)))
      agent
    }
    def asked(registry: Registry, duties: ReplicaDuty*): ExecutorAgent =
      agentWith(registry)(_.copy(duties = duties.toVector))

    /** Copies, and makes sure that a byte took a second. */
    def copies(agent: ExecutorAgent)(copy: => Unit): Unit = {
      val from = clock.nanoTime
      copy
      val bytes = agent.report.besideTasks("run")
      assert(bytes > 0 && clock.nanoTime - from == bytes * 1000000000L)
    }
    val running = new Registry
    for (v <- 0 to 4) batch(store, running, v.toLong, 2L * v + 1, before, before, v.toByte)

    val source = asked(running)
    val lease = store.lease(running, 0, 20)
    store.open(running, lease, store.turn(5, before, before))
    val image = BlockName(moving.store, 0, 1, lease.holding.base, BlockKind.Image, step)
    source.publisher.queueImage(image, TransferBlocks.snapshot(lease.holding, Seq(0)))
    copies(source)(assert(source.publisher.publishNext()))

    val fromFiles = asked(new Registry, dutyAt(4))
    copies(fromFiles)(fromFiles.duties.foreach(fromFiles.prepare(_)))

    val address = Some(ExecutorAddress("source", "host", 1))
    val ofImage = dutyAt(5).copy(image = Some(image.name), imageAddress = address)
    val fromImage = asked(new Registry, ofImage)
    copies(fromImage)(fromImage.duties.foreach(fromImage.prepare(_)))
    for (agent <- Seq(fromFiles, fromImage)) assert(agent.report.ready.map(_._1) == Seq(moving))

    val standing = agentWith(new Registry)(_.copy(standbys = Vector(standbyAt(4))))
    copies(standing)(assert(standing.standbys.keepAll("run", areWhole = false)))
    assert(standing.report.standing.map(_.isWhole) == Seq(true))
  }

  test("a replica that lacks many tails gets a few for each version, and all once no task runs") {
    val (store, registry) = (new Store, new Registry)
    val agent = agentOf(store, registry, clock = new Hands)
    for (v <- 0 to 29) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    agent.throttle.taskBegins()
    def reached(settled: Long): Long = {
      agent.obey(Orders(settled, slowly, Vector(dutyAt(settled))))
      agent.duties.foreach(agent.prepare(_))
      assert(agent.duties.isEmpty || !agent.isBehind, "the next tails come with the next version")
      registry.replica(moving).get.base.version
    }
    assert(Seq(4L, 14L, 15L, 17L).map(reached) == Seq(4L, 6L, 8L, 12L))
    agent.throttle.taskEnds()
    assert(reached(28) == 28)
  }

  test("the versions that pass while an image comes are no reason to hurry after it") {
    val (store, registry) = (new Store, new Registry)
    val running = new Registry
    var image = Option.empty[Array[Byte]]
    for (v <- 0 to 29) {
      if (v == 5) {
        val lease = store.lease(running, 0, 60)
        store.open(running, lease, store.turn(5, before, before))
        val snapshot = TransferBlocks.snapshot(lease.holding, Seq(0))
        image = Some(onlyPart(store.handOver.image(snapshot)))
        lease.release()
      }
      batch(store, running, v.toLong, 2L * v + 1, before, before, v.toByte)
    }
    val clock = new Hands
    val agent = agentOf(store, registry, new SomePeers(_ => image), clock)
    agent.throttle.taskBegins()
    def obey(settled: Long) = {
      val address = Some(ExecutorAddress("source", "host", 1))
      val duty = dutyAt(settled).copy(image = Some(StateName(5, "")), imageAddress = address)
      assert(agent.obey(Orders(settled, slowly, Vector(duty))))
    }
    def reached = registry.replica(moving).get.base.version
    obey(15)
    clock.onWait = () => { clock.onWait = () => (); obey(25) }
    assert(agent.duties.map(agent.prepare(_)) == Seq(true) && reached == 7)
    assert(agent.duties.isEmpty, "it has had its turn")
    obey(26)
    agent.duties.foreach(agent.prepare(_))
    assert(reached == 9)
  }

  test("the slices of a replica are made one after the other, and what is copied adds up") {
    val (store, registry, clock) = (new Store, new Registry, new Hands)
    val agent = agentOf(store, registry, clock = clock, sliceBytes = 1)
    for (v <- 0 to 4) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    val bins = before.binsOf(0).toVector
    val duty = dutyAt(4).copy(bins = bins, image = None, liveBytes = Some(200))
    def copied = agent.report.copied.map(_.bytes)
    agent.throttle.taskBegins()
    agent.obey(Orders(1, slowly, Vector(duty)))
    agent.prepare(duty)
    assert(agent.report.ready.isEmpty && agent.isBehind && !agent.isWhole(moving))
    val ofSlice = copied.head
    assert(agent.work(Vector(moving), NoHost), "that it grows is news")
    assert(agent.report.ready == Seq(moving -> 4L) && !agent.isBehind && agent.isWhole(moving))
    assert(copied == Seq(bins.size * ofSlice))

  }

  test("a replica that lacks bins is kept up by the versions that pass while a slice comes") {
    val (store, registry, clock) = (new Store, new Registry, new Hands)
    val agent = agentOf(store, registry, clock = clock, sliceBytes = 1)
    for (v <- 0 to 29) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    def duty(settled: Long) = dutyAt(settled)
      .copy(bins = before.binsOf(0).toVector, image = None, liveBytes = Some(200))
    agent.throttle.taskBegins()
    def orders(settled: Long) = agent.obey(Orders(settled, slowly, Vector(duty(settled))))
    orders(4)
    clock.onWait = () => { clock.onWait = () => (); orders(14); () }
    agent.prepare(duty(4))
    def replica = registry.replica(moving).get
    assert(replica.base.version == 4 && replica.lacked.size == 1)
    agent.work(Vector(moving), NoHost)
    assert(replica.base.version == 14 && replica.isWhole)
  }

  test("images come before slices, and one replica is made of slices at a time") {
    val (store, registry) = (new Store, new Registry)
    val agent = agentOf(store, registry, sliceBytes = 1)
    for (v <- 0 to 4) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    def duty(target: Int, image: Option[StateName]) = dutyAt(4).copy(
      key = ReplicaKey.forStep(moving.store, 0, target, step),
      bins = before.binsOf(0).toVector,
      image = image,
      liveBytes = Some(200)
    )
    val (first, second) = (duty(1, None), duty(2, None))
    val ofImage = duty(3, Some(StateName(4, "")))
    agent.obey(orders(1, settled = 4, first, second, ofImage))
    assert(agent.duties == Vector(ofImage, first))
    agent.prepare(first)
    agent.prepare(second)
    assert(agent.duties == Vector(ofImage, first, second), "both need their tails from files")
    agent.prepare(first)
    registry.dropReplica(second.key)
    assert(agent.isWhole(first.key) && agent.duties == Vector(first, ofImage, second))
  }

  test("no other replica is begun while one waits for its next tails") {
    val (store, registry, clock) = (new Store, new Registry, new Hands)
    val agent = agentOf(store, registry, clock = clock, sliceBytes = 1)
    for (v <- 0 to 29) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    def obey(settled: Long): Vector[ReplicaDuty] = {
      val duties = Vector(1, 2).map { target =>
        dutyAt(settled).copy(
          key = ReplicaKey.forStep(moving.store, 0, target, step),
          bins = before.binsOf(0).toVector,
          image = None,
          liveBytes = Some(200)
        )
      }
      agent.obey(Orders(settled, slowly, duties))
      duties
    }
    agent.throttle.taskBegins()
    agent.prepare(obey(4).head)
    val now = obey(14)
    agent.prepare(now.head) // two of ten tails
    assert(agent.duties.isEmpty)
    assert(obey(15).take(1) == agent.duties)
  }

  test("a slice that fails leaves the others, and the versions that passed meanwhile count") {
    val (store, registry, clock) = (new Store, new Registry, new Hands)
    val agent = agentOf(store, registry, clock = clock, sliceBytes = 1)
    for (v <- 0 to 29) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    def obey(counter: Long, settled: Long) = {
      val duty = dutyAt(settled)
        .copy(bins = before.binsOf(0).toVector, image = None, liveBytes = Some(200))
      agent.obey(Orders(counter, slowly, Vector(duty)))
      duty
    }
    agent.throttle.taskBegins()
    val duty = obey(1, 4)
    clock.onWait = () => { clock.onWait = () => (); obey(2, 14); () }
    agent.prepare(duty)
    store.readsLeft = 1
    intercept[IOException](agent.prepare(obey(3, 14)))
    store.readsLeft = -1
    agent.prepare(obey(4, 15))
    val replica = registry.replica(moving).get
    assert(replica.base.version == 15 && replica.isWhole)
  }

  private object NoHost extends DutyHost {
    override def begins(key: ReplicaKey): Unit = ()
    override def ends(key: ReplicaKey): Unit = ()
    override def failed(keys: Vector[ReplicaKey], cause: Throwable): Unit = throw cause
  }

  test("a duty that newer orders do not name is left out, although work has begun") {
    val (store, registry) = (new Store, new Registry)
    val agent = agentOf(store, registry)
    for (v <- 0 to 4) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    val other = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 2, step)
    val (first, second) =
      (dutyAt(4), dutyAt(4).copy(key = other, bins = Vector(before.binsOf(0).last)))
    agent.obey(orders(1, settled = 4, first, second))
    val host = new DutyHost {
      override def begins(key: ReplicaKey): Unit =
        if (key == other) assert(agent.obey(orders(2, settled = 4, first)))
      override def ends(key: ReplicaKey): Unit = ()
      override def failed(keys: Vector[ReplicaKey], cause: Throwable): Unit = throw cause
    }
    agent.work(Vector(moving, other), host)
    assert(registry.replica(moving).isDefined && registry.replica(other).isEmpty)
  }

  test("a replica whose duty has gone elsewhere is dropped, but not that of a sealed step") {
    val (store, registry) = (new Store, new Registry)
    val agent = agentOf(store, registry)
    for (v <- 0 to 4) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    agent.obey(orders(1, settled = 4, dutyAt(4)))
    agent.duties.foreach(agent.prepare(_))
    val taking = LiveRun("root", 5, Set(step), None, sealedSteps = Set(step))
    agent.obey(Orders(2, Map("run" -> taking), Vector.empty))
    assert(agent.report.ready == Seq(moving -> 4L), "a task may still take it")
    agent.obey(orders(3, settled = 5))
    assert(agent.report.ready.isEmpty && registry.replicasCount == 0)
  }

  test("files that others sent are kept while the state here can be brought forward by them") {
    val (store, registry) = (new Store, new Registry)
    val agent = agentOf(store, registry)
    val duty = standbyAt(4)
    val worker = duty.worker
    def pushedKept(version: Long, settled: Long) = {
      val file = FileName(0, StateName(version, "id"))
      agent.pushed.add(PushedFile(worker.store, file, new Array[Byte](10)))
      agent.obey(orders(settled, settled).copy(standbys = Vector(duty)))
      agent.pushed.heldBytes > 0
    }
    assert(!pushedKept(version = 4, settled = 5) && pushedKept(version = 6, settled = 6))
    // A standby that could not be made has no state yet.
    store.lease(registry, 0, 1).release()
    assert(!pushedKept(version = 6, settled = 7) && pushedKept(version = 8, settled = 8))
    for (v <- 0 to 4) batch(store, new Registry, v.toLong, 2L * v + 1, before, before, v.toByte)
    assert(new StandbyKeeper(registry, store.recovery, store.recovery)(duty) == Grown)
    agent.pushed.keep((_, _) => false)
    val oldest = Footer.PreviousMax + 5L // of which a standby at version 4 can still make use
    assert(!pushedKept(version = 4, settled = 8) && pushedKept(version = 5, settled = oldest))
    assert(!pushedKept(version = 5, settled = oldest + 1))
  }

  test("each replica is brought forward when its tail comes, and the others by files after that") {
    val moving = new Moving(partBytes = 1)
    val peer = new moving.Peer(3, 1)
    val agent = new ExecutorAgent(
      moving.target,
      peer,
      moving.store.handOver,
      FaultPoints.Off,
      (_, _, _) => moving.store.recovery,
      60000,
      _ => ()
    )
    val duties = (1 to 3).map { worker =>
      val (base, settled) = (StateName(1, ""), StateName(2, ""))
      val (bins, hash) = (Vector(worker), four.contentHash)
      ReplicaDuty(keyOf(worker), bins, 4, Some(base), settled, hash, Some(address), None)
    }
    assert(agent.obey(orders(1, settled = 2, duties: _*)))
    val ended = mutable.Buffer.empty[Int]
    val host = new DutyHost {
      override def begins(key: ReplicaKey): Unit = ()
      override def ends(key: ReplicaKey): Unit = ended += key.source
      override def failed(keys: Vector[ReplicaKey], cause: Throwable): Unit = throw cause
    }
    assert(agent.work(duties.map(_.key).toVector, host), "it is news")
    assert(ended.toSeq == Seq(3, 1, 2))
    assert(agent.report.ready.toSet == duties.map(_.key -> 2L).toSet)
    assert(peer.asked.map(_._1).toSeq == Seq(Seq(1, 2, 3)), "nobody is asked twice")
    val traffic = (1 to 3).map(worker => moving.target.replica(keyOf(worker)).get.traffic)
    assert(traffic.map(_.fromPeer) == Seq(1000 + moving.bytesOf(1), 1000, 1000 + moving.bytesOf(3)))
    assert(traffic.map(_.fromCheckpoint > 10000) == Seq(false, true, false))
    assert(!agent.work(duties.map(_.key).toVector, host), "it is none")
  }
}
