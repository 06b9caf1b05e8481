// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{ExecutorAddress, FileName, Footer, StateName}
import io.megaphone.pace.Hands
import io.megaphone.state.Registry
import io.megaphone.transfer.{
  BlockKind, BlockName, PushedFile, ReplicaDuty, StandbyKeeper, TransferBlocks
}
import io.megaphone.transfer.StandbyKeeper.Grown

/** What an executor does by the driver's orders, and says of it. */
class ExecutorAgentSuite extends AnyFunSuite with Agents {

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

  test("an executor is behind while a replica is not ready or an image is not published") {
    val (store, registry) = (writtenTo(5), new Registry)
    val agent = agentOf(store, registry)
    assert(!agent.isBehind)
    agent.obey(orders(1, settled = 4, dutyAt(4)))
    assert(agent.isBehind, "there is no replica yet")
    agent.replicas.duties.foreach(agent.replicas.prepare(_))
    assert(!agent.isBehind, "it is ready, however long the step takes")
    agent.obey(orders(2, settled = 5, dutyAt(5)))
    assert(agent.isBehind, "its source has gone on")
    agent.replicas.duties.foreach(agent.replicas.prepare(_))
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
    copies(fromFiles)(fromFiles.replicas.duties.foreach(fromFiles.replicas.prepare(_)))

    val address = Some(ExecutorAddress("source", "host", 1))
    val ofImage = dutyAt(5).copy(image = Some(image.name), imageAddress = address)
    val fromImage = asked(new Registry, ofImage)
    copies(fromImage)(fromImage.replicas.duties.foreach(fromImage.replicas.prepare(_)))
    for (agent <- Seq(fromFiles, fromImage)) assert(agent.report.ready.map(_._1) == Seq(moving))

    val standing = agentWith(new Registry)(_.copy(standbys = Vector(standbyAt(4))))
    copies(standing)(assert(standing.standbys.keepAll("run", areWhole = false)))
    assert(standing.report.standing.map(_.isWhole) == Seq(true))
  }

  test("a slice of a standby that its worker has left far behind keeps to no rate") {
    def seconds(settled: Long): Double = {
      val (store, clock) = (writtenTo(5), new Hands)
      val agent = agentOf(store, new Registry, clock = clock)
      agent.throttle.taskBegins()
      def orders(settled: Long) =
        agent.obey(Orders(settled, slowly, Vector.empty, Vector(standbyAt(settled))))
      orders(4)
      clock.onWait = () => { clock.onWait = () => (); orders(settled); () }
      val from = clock.nanoTime
      assert(agent.standbys.keepOne(standbyAt(4)).contains(Grown))
      (clock.nanoTime - from) / 1e9
    }
    assert(seconds(4 + 24) == 8 * seconds(4 + 25), "of eight tails of the same size the first")
  }

  test("that a standby cannot be kept is told once, after five failures in a row") {
    val (store, registry) = (writtenTo(5), new Registry)
    var warnings = Vector.empty[String]
    val agent = agentOf(store, registry, warn = warnings :+= _)
    var (round, tried) = (0L, 0)
    var isReadable = false
    def rounds(count: Int) = for (_ <- 1 to count) {
      round += 1
      agent.obey(orders(round, 4).copy(standbys = Vector(standbyAt(4))))
      tried += agent.standbys.due("run", areWhole = false).size
      store.readsLeft = if (isReadable) -1 else 1 // the first read fails
      agent.standbys.keepAll("run", areWhole = false)
    }
    while (tried < 4) rounds(1)
    assert(warnings.isEmpty)
    rounds(100)
    assert(tried > 5 && warnings.size == 1)
    assert(warnings.head.contains("could not be kept 5 times in a row"))
    isReadable = true
    rounds(30)
    assert(agent.report.standing.map(_.isWhole) == Seq(true) && warnings.size == 1)
  }

  test("files that others sent are kept while the state here can be brought forward by them") {
    val (store, registry) = (writtenTo(5), new Registry)
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
    assert(new StandbyKeeper(registry, store.recovery, store.recovery)(duty) == Grown)
    agent.pushed.keep((_, _) => false)
    val oldest = Footer.PreviousMax + 5L // of which a standby at version 4 can still make use
    assert(!pushedKept(version = 4, settled = 8) && pushedKept(version = 5, settled = oldest))
    assert(!pushedKept(version = 5, settled = oldest + 1))
  }
}
