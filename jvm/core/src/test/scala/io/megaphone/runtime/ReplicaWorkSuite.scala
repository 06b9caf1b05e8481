// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{ExecutorAddress, StateName, StoreId}
import io.megaphone.pace.Hands
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.{BlockName, Preparer, ReplicaDuty, TransferBlocks}

/** The replicas that an executor makes by the driver's orders. */
class ReplicaWorkSuite extends AnyFunSuite with Agents {

  test("a report names the replicas that are there, and no other") {
    val (store, registry) = (writtenTo(5), new Registry)
    val agent = agentOf(store, registry)
    agent.obey(orders(1, settled = 4, dutyAt(4)))
    assert(agent.report.ready.isEmpty)
    assert(agent.replicas.duties.forall(agent.replicas.prepare(_)), "it is news")
    assert(agent.report.ready == Seq(moving -> 4L))
    assert(!agent.replicas.duties.exists(agent.replicas.prepare(_)), "it is none")
    registry.dropReplica(moving) // a task of the step has taken it
    assert(agent.report.ready.isEmpty && agent.isBehind)
  }

  test("a report says why a replica could not be prepared five times in a row, until it can") {
    val (store, registry) = (writtenTo(5), new Registry)
    val agent = agentOf(store, registry)
    val told = mutable.Buffer.empty[Int]
    var counter = 0L
    def go(attempts: Int, readsLeft: Int): Unit = for (_ <- 1 to attempts) {
      store.readsLeft = readsLeft
      do {
        counter += 1
        agent.obey(orders(counter, settled = 4, dutyAt(4)))
      } while (agent.replicas.duties.isEmpty) // it rests
      try agent.replicas.duties.foreach(agent.replicas.prepare(_))
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

  test("a replica that lacks many tails gets a few for each version, and all once no task runs") {
    val (store, registry) = (writtenTo(30), new Registry)
    val agent = agentOf(store, registry, clock = new Hands)
    agent.throttle.taskBegins()
    def reached(settled: Long): Long = {
      agent.obey(Orders(settled, slowly, Vector(dutyAt(settled))))
      agent.replicas.duties.foreach(agent.replicas.prepare(_))
      val isFed = agent.replicas.duties.isEmpty || !agent.isBehind
      assert(isFed, "the next tails come with the next version")
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
    assert(agent.replicas.duties.map(agent.replicas.prepare(_)) == Seq(true) && reached == 7)
    assert(agent.replicas.duties.isEmpty, "it has had its turn")
    obey(26)
    agent.replicas.duties.foreach(agent.replicas.prepare(_))
    assert(reached == 9)
  }

  test("the slices of a replica are made one after the other, and what is copied adds up") {
    val (store, registry, clock) = (writtenTo(5), new Registry, new Hands)
    val agent = agentOf(store, registry, clock = clock, sliceBytes = 1)
    val duty = dutyInSlices(4)
    def copied = agent.report.copied.map(_.bytes)
    agent.throttle.taskBegins()
    agent.obey(Orders(1, slowly, Vector(duty)))
    agent.replicas.prepare(duty)
    assert(agent.report.ready.isEmpty && agent.isBehind && !agent.replicas.isWhole(moving))
    val ofSlice = copied.head
    assert(agent.replicas.work(Vector(moving), NoHost), "that it grows is news")
    assert(agent.report.ready == Seq(moving -> 4L) && !agent.isBehind)
    assert(agent.replicas.isWhole(moving) && copied == Seq(duty.bins.size * ofSlice))
  }

  test("a replica that lacks bins is kept up by the versions that pass while a slice comes") {
    val (store, registry, clock) = (writtenTo(30), new Registry, new Hands)
    val agent = agentOf(store, registry, clock = clock, sliceBytes = 1)
    agent.throttle.taskBegins()
    def orders(settled: Long) = agent.obey(Orders(settled, slowly, Vector(dutyInSlices(settled))))
    orders(4)
    clock.onWait = () => { clock.onWait = () => (); orders(14); () }
    agent.replicas.prepare(dutyInSlices(4))
    def replica = registry.replica(moving).get
    assert(replica.base.version == 4 && replica.lacked.size == 1)
    agent.replicas.work(Vector(moving), NoHost)
    assert(replica.base.version == 14 && replica.isWhole)
  }

  test("a slice that its source has left far behind keeps to no rate, so that tails lead on") {
    def secondsPerByte(settled: Long): Double = {
      val (store, registry, clock) = (writtenTo(5), new Registry, new Hands)
      val agent = agentOf(store, registry, clock = clock)
      agent.throttle.taskBegins()
      def orders(settled: Long) = agent.obey(Orders(settled, slowly, Vector(dutyInSlices(settled))))
      orders(4)
      clock.onWait = () => { clock.onWait = () => (); orders(settled); () }
      val from = clock.nanoTime
      agent.replicas.prepare(dutyInSlices(4)) // eight tails of the same size
      (clock.nanoTime - from) / 1e9 / agent.report.copied.map(_.bytes).sum
    }
    assert(secondsPerByte(4 + 47) == 1.0 && secondsPerByte(4 + 48) == 1.0 / 8)
  }

  test("a lost or too old image is none: its replica is made as others are of files") {
    val (store, registry) = (writtenTo(5), new Registry)
    val agent = agentOf(store, registry, sliceBytes = 1)
    val address = Some(ExecutorAddress("source", "host", 1))
    def duty(target: Int, image: Long, address: Option[ExecutorAddress]) =
      dutyInSlices(4, target).copy(image = Some(StateName(image, "")), imageAddress = address)
    val (usable, lost) = (duty(1, 3, address), duty(2, 3, None))
    val old = duty(3, 4L - Preparer.TailsMax - 1, address)
    agent.obey(orders(1, settled = 4, old, lost, usable))
    assert(agent.replicas.duties == Vector(usable, old), "one at a time")
    agent.replicas.prepare(old)
    assert(registry.replica(old.key).map(_.lacked.size) == Some(1), "the first slice")
  }

  test("images come before slices, and one replica is made of slices at a time") {
    val (store, registry) = (writtenTo(5), new Registry)
    val agent = agentOf(store, registry, sliceBytes = 1)
    val (first, second) = (dutyInSlices(4), dutyInSlices(4, target = 2))
    val ofImage = dutyInSlices(4, target = 3).copy(
      image = Some(StateName(4, "")),
      imageAddress = Some(ExecutorAddress("source", "host", 1))
    )
    agent.obey(orders(1, settled = 4, first, second, ofImage))
    assert(agent.replicas.duties == Vector(ofImage, first))
    agent.replicas.prepare(first)
    agent.replicas.prepare(second)
    assert(agent.replicas.duties == Vector(ofImage, first, second), "both need tails from files")
    agent.replicas.prepare(first)
    registry.dropReplica(second.key)
    assert(agent.replicas.isWhole(first.key))
    assert(agent.replicas.duties == Vector(first, ofImage, second))
  }

  test("the tail of a replica that lacks bins is not asked for with those of others") {
    val (store, registry) = (writtenTo(6), new Registry)
    val asked = mutable.Buffer.empty[BlockName]
    val peers = new SomePeers(_ => None) {
      override def pullAll(blocks: Seq[(BlockName, ExecutorAddress)], deadlineMs: Long)(
          come: (BlockName, Array[Byte]) => Unit
      ): Unit = asked ++= blocks.map(_._1)
    }
    val agent = agentOf(store, registry, peers, sliceBytes = 1)
    val address = Some(ExecutorAddress("source", "host", 1))
    def work(settled: Long): Boolean = {
      val duty = dutyInSlices(settled).copy(address = address)
      agent.obey(orders(settled, settled, duty))
      agent.replicas.work(Vector(moving), NoHost)
    }
    work(4)
    assert(work(5) && agent.replicas.isWhole(moving) && asked.isEmpty, "it would wait for a slice")
    work(6)
    assert(asked.map(_.name.version) == Seq(6L))
  }

  test("no other replica is begun while one waits for its next tails") {
    val (store, registry, clock) = (writtenTo(30), new Registry, new Hands)
    val agent = agentOf(store, registry, clock = clock, sliceBytes = 1)
    def obey(settled: Long): Vector[ReplicaDuty] = {
      val duties = Vector(1, 2).map(dutyInSlices(settled, _))
      agent.obey(Orders(settled, slowly, duties))
      duties
    }
    agent.throttle.taskBegins()
    agent.replicas.prepare(obey(4).head)
    val now = obey(14)
    val copied = agent.report.copied
    agent.replicas.prepare(now.head) // two of ten tails
    assert(agent.replicas.duties.isEmpty)
    assert(agent.report.copied == copied, "no slice is read of another name than the replica's")
    assert(obey(15).take(1) == agent.replicas.duties)
  }

  test("a slice that fails leaves the others, and the versions that passed meanwhile count") {
    val (store, registry, clock) = (writtenTo(30), new Registry, new Hands)
    val agent = agentOf(store, registry, clock = clock, sliceBytes = 1)
    def obey(counter: Long, settled: Long) = {
      val duty = dutyInSlices(settled)
      agent.obey(Orders(counter, slowly, Vector(duty)))
      duty
    }
    agent.throttle.taskBegins()
    val duty = obey(1, 4)
    clock.onWait = () => { clock.onWait = () => (); obey(2, 14); () }
    agent.replicas.prepare(duty)
    store.readsLeft = 1
    intercept[IOException](agent.replicas.prepare(obey(3, 14)))
    store.readsLeft = -1
    agent.replicas.prepare(obey(4, 15))
    val replica = registry.replica(moving).get
    assert(replica.base.version == 15 && replica.isWhole)
  }

  test("a duty that newer orders do not name is left out, although work has begun") {
    val (store, registry) = (writtenTo(5), new Registry)
    val agent = agentOf(store, registry)
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
    agent.replicas.work(Vector(moving, other), host)
    assert(registry.replica(moving).isDefined && registry.replica(other).isEmpty)
  }

  test("a replica whose duty has gone elsewhere is dropped, but not that of a sealed step") {
    val (store, registry) = (writtenTo(5), new Registry)
    val agent = agentOf(store, registry)
    agent.obey(orders(1, settled = 4, dutyAt(4)))
    agent.replicas.duties.foreach(agent.replicas.prepare(_))
    val taking = LiveRun("root", 5, Set(step), None, sealedSteps = Set(step))
    agent.obey(Orders(2, Map("run" -> taking), Vector.empty))
    assert(agent.report.ready == Seq(moving -> 4L), "a task may still take it")
    agent.obey(orders(3, settled = 5))
    assert(agent.report.ready.isEmpty && registry.replicasCount == 0)
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
    assert(agent.replicas.work(duties.map(_.key).toVector, host), "it is news")
    assert(ended.toSeq == Seq(3, 1, 2))
    assert(agent.report.ready.toSet == duties.map(_.key -> 2L).toSet)
    assert(peer.asked.map(_._1).toSeq == Seq(Seq(1, 2, 3)), "nobody is asked twice")
    val traffic = (1 to 3).map(worker => moving.target.replica(keyOf(worker)).get.traffic)
    assert(traffic.map(_.fromPeer) == Seq(1000 + moving.bytesOf(1), 1000, 1000 + moving.bytesOf(3)))
    assert(traffic.map(_.fromCheckpoint > 10000) == Seq(false, true, false))
    assert(!agent.replicas.work(duties.map(_.key).toVector, host), "it is none")
  }
}
