// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.nio.file.{Path, Paths}

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{Compression, Compressions, StateName, StoreId, WorkerId}
import io.megaphone.log.memory.{HeapBudget, HeapBudgetSuite, SpillException, SpillFiles}
import io.megaphone.state.{Attempt, Holding, Lease, Registry}
import io.megaphone.transfer.StandbyDuty

/** An executor with neither memory nor disk for all that it has: batches come before standbys. */
class ScarceRoomSuite extends AnyFunSuite with SmallStore {
  private val RowBytes = 4096
  private val stoodBy = WorkerId(StoreId(0, "default").in("run"), 0)

  private def fill(lease: Lease, bin: Int, rows: Range): Unit =
    for (i <- rows) put(lease.holding, bin, s"$i".getBytes, new Array[Byte](RowBytes))

  /** An executor that stands by for worker 0, whose state is 400 rows, and runs worker 1. */
  private final class Scene(budgetRows: Int, disk: Path = Paths.get("/nowhere")) {
    private val store = new Store
    private val turn = store.turn(0, before, before)
    private val source = store.lease(new Registry, 0, 1)
    store.open(new Registry, source, turn)
    fill(source, 0, 0 until 400)
    store.commit(source, turn)

    private val overflow = new SpillFiles(Seq(disk))
    val registry = new Registry(budget = new HeapBudget(budgetRows * RowBytes.toLong, overflow))
    private val recovery =
      new Recovery(store.files, Compressions(Compression.None), budget = registry.budget)
    var warnings = Vector.empty[String]
    val agent = new ExecutorAgent(
      registry,
      NoPeers,
      store.handOver,
      FaultPoints.Off,
      (_, _, _) => recovery,
      0,
      warnings :+= _
    )
    private val duty = StandbyDuty(
      stoodBy,
      before.binsOf(0).toVector,
      before.bins,
      StateName(1, ""),
      before.contentHash,
      0
    )
    private var round = 0L
    def obey(): Unit = {
      round += 1
      val runs = Map("run" -> LiveRun("root", 1, Set.empty, None))
      agent.obey(Orders(round, runs, Vector.empty, Vector(duty)))
      ()
    }

    /** A new attempt of worker 1's task. */
    def attempt(id: Long): Lease = {
      val lease = store.lease(registry, 1, id)
      store.open(registry, lease, turn)
      lease
    }
    def commit(lease: Lease): Unit = store.commit(lease, turn)
    def standby: Holding = registry.holding(stoodBy).get
    def stands: Boolean = agent.report.standing.exists(_.isWhole)

    obey()
    agent.standbys.keepAll("run", areWhole = false)
    assert(stands)
  }

  private def check(scene: Scene): Unit = {
    import scene._
    assert(!stands && agent.report.noRoom == Vector(stoodBy))
    assert(warnings.exists(_.contains("Standbys were dropped, 1 in all")))
    def rests = agent.standbys.due("run", areWhole = false).isEmpty
    for (_ <- 1 to 100) { assert(rests, "batches would fail for it again and again"); obey() }
    for (_ <- 1 to 200) obey()
    assert(!rests, "it may be tried again")
  }

  test("a standby gives way to the next attempt of a task that had no room") {
    val scene = new Scene(budgetRows = 700)
    import scene._
    val first = attempt(1)
    val cause = intercept[SpillException](fill(first, 1, 0 until 400))
    agent.taskFailed(new IllegalStateException("something else"))
    assert(stands)
    agent.taskFailed(new RuntimeException("The task has failed.", cause))
    first.end()
    val second = attempt(2)
    fill(second, 1, 0 until 400)
    commit(second)
    check(scene)
  }

  test("a standby gives way after a batch that leaves no room for the next one") {
    val scene = new Scene(budgetRows = 800)
    import scene._
    val lease = attempt(1)
    fill(lease, 1, 0 until 340)
    commit(lease)
    assert(stands && registry.budget.isTight)
    agent.keepWithin(lease.holding)
    check(scene)
  }

  for ((isUsed, unless) <- Seq(false -> "", true -> ", unless a task uses it"))
    test(s"a standby's pages go to disk before those of a worker$unless") {
      HeapBudgetSuite.withFolder { disk =>
        val scene = new Scene(budgetRows = 800, disk)
        import scene._
        val lease = attempt(1)
        fill(lease, 1, 0 until 340)
        commit(lease)
        assert(registry.budget.isTight && registry.budget.bytesOnDisk == 0)
        val user = Option.when(isUsed)(
          registry.lease(stoodBy, before.bins, new Attempt(1, () => true), 0)
        )
        agent.keepWithin(lease.holding)
        assert((standby.bytesOnDisk > 0) == !isUsed)
        assert((lease.holding.bytesOnDisk > 0) == isUsed)
        assert(stands && isUsed == registry.budget.isTight)
        user.foreach(_.release())
        agent.keepWithin(lease.holding)
        assert(standby.bytesOnDisk > 0 && !registry.budget.isTight)
        assert(
          registry.tryLease(stoodBy, before.bins, new Attempt(2, () => true)).nonEmpty,
          "it was given back"
        )
      }
    }

  test("a standby that a task has come for gives no way") {
    val scene = new Scene(budgetRows = 2000)
    import scene._
    val task = registry.lease(stoodBy, before.bins, new Attempt(1, () => true), 0)
    assert(!agent.standbys.giveWay() && stands)
    task.release()
    assert(agent.standbys.giveWay() && !stands)
  }
}
