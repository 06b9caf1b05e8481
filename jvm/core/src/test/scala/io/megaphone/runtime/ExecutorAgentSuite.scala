// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{StateName, StoreId}
import io.megaphone.plan.StepId
import io.megaphone.state.{Registry, ReplicaKey}
import io.megaphone.transfer.{BlockKind, BlockName, ReplicaDuty, TransferBlocks}

/** What an executor does by the driver's orders, and says of it. */
class ExecutorAgentSuite extends AnyFunSuite with SmallStore {
  private val step = StepId("plan", 0, 0)
  private val moving = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step)

  private def agentOf(store: Store, registry: Registry) = new ExecutorAgent(
    registry,
    NoPeers,
    store.handOver,
    FaultPoints.Off,
    (_, _, _) => store.recovery,
    0,
    _ => ()
  )

  private def orders(counter: Long, settled: Long, duties: ReplicaDuty*) =
    Orders(counter, Map("run" -> LiveRun("root", settled, Set(step), None)), duties.toVector)

  /** Bin 0 of worker 0 at a version, to be had from files alone. */
  private def dutyAt(version: Long) = ReplicaDuty(
    moving,
    Vector(0),
    4,
    StateName(version - 4, ""),
    StateName(version, ""),
    before.contentHash,
    None,
    None
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
}
