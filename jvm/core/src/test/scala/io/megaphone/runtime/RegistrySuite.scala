// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.{Executors, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{StateName, StoreId}
import io.megaphone.format.ExecutorAddress
import io.megaphone.plan.StepId
import io.megaphone.state.{Holding, Registry}
import io.megaphone.state.ReplicaKey
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

  test("a copy is free for a task while the copy's peer is waited for") {
    val store = new Store
    val registry = new Registry
    val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, StepId("plan", 0, 0))
    val copy = new Holding(0, 4)
    copy.restart(StateName(1, ""), Vector.empty)
    registry.putReplica(key, copy)
    val task = Executors.newSingleThreadExecutor()
    val peers = new SomePeers(_ => {
      task.submit((() => copy.synchronized(())): Runnable).get(60, TimeUnit.SECONDS)
      None
    })
    val duty = ReplicaDuty(
      key,
      Vector.empty,
      4,
      StateName(1, ""),
      StateName(2, ""),
      before.contentHash,
      Some(ExecutorAddress("peer", "host", 1))
    )
    try assert(new Preparer(registry, store.recovery, store.handOver, peers, 0)(duty).isEmpty)
    finally task.shutdownNow()
    assert(registry.replica(key).isEmpty, "it could not be brought up, and is of no use")
  }
}
