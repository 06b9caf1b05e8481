// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.ExecutorAddress
import io.megaphone.pace.TransferRate
import io.megaphone.placement.Seat
import io.megaphone.plan.{Move, Plan, Step, TransferMode}

/** Workers that go to other executors as a whole, and executors that are emptied. */
class RelocationsSuite extends AnyFunSuite with PlacedRun {
  test("a worker goes to another executor once that has all of its state") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    val begun = q.run.relocate(Map(Seat(0, 0) -> "c", Seat(0, 1) -> "b"))
    assert(begun.map(r => (r.seat.worker, r.from, r.to)) == Vector((0, "a", "c")), "1 is there")
    assert(q.run.standbyDutiesOf("c").map(_.worker.worker) == Seq(0))
    assert(placesOf(q.plan(2, three)) == Vector("a", "b"))
    says(q, three(2), standing(0, 2, isWhole = false))
    assert(placesOf(q.plan(3, three)) == Vector("a", "b"))
    says(q, three(2), standing(0, 2))
    assert(placesOf(q.plan(3, three)) == Vector("a", "b"), "a batch gets its places once")
    val taken = q.plan(4, three)
    assert(placesOf(taken) == Vector("c", "b"))
    assert(taken.pins.map(p => p.worker -> p.executor.id) == Vector(0 -> "c"))
    assert(q.run.footprint.relocations.map(_.status) == Vector("taken"))
    assert(q.run.standbyDutiesOf("c").nonEmpty, "its task may run elsewhere")
    assert(placesOf(q.plan(5, three)) == Vector("c", "b"), "it has not been heard of yet")
    q.committed(0, on = 0, liveBytes = 100, batch = 5)
    assert(placesOf(q.plan(6, three)) == Vector("c", "b"), "it is sent there again")
    q.run.committed(commitOf(0, three(2), batch = 6))
    q.plan(7, three)
    assert(q.run.footprint.relocations.map(_.status) == Vector("done"))
    assert(q.run.takeNews().ended == q.run.footprint.relocations && q.run.takeNews().isEmpty)
    assert(q.run.standbyDutiesOf("c").isEmpty && q.run.footprint.staysOn("a").isEmpty)
  }

  test("an executor that is to be emptied loses its workers, and gets them not again") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    def view(draining: String*) = ClusterView(three, draining = draining.toSet)
    def plan(batch: Long, draining: String*) =
      q.run.plan(batch, Vector(group), true, Map.empty, view(draining: _*))
    assert(q.run.clusterChanged(view("a")).isEmpty, "its tasks go on there")
    assert(q.run.footprint.relocations.map(r => (r.to, r.why)) == Vector(("c", Relocation.Drain)))
    says(q, three(2), standing(0, 1))
    assert(placesOf(plan(2, "a")) == Vector("c", "b"))
    q.run.committed(commitOf(0, three(2), batch = 2))
    assert(placesOf(plan(3, "a")) == Vector("c", "b") && q.run.footprint.staysOn("a").isEmpty)
    q.run.clusterChanged(view("a", "b"))
    assert(q.run.footprint.relocations.last.to == "c", "a is to be emptied, too")
    plan(4, "a")
    assert(q.run.footprint.relocations.last.status == "cancelled", "b keeps its workers after all")
  }

  test("bins that a step has just brought are nowhere else before the next batch is planned") {
    val q = settledOn(executors, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1)
    def isElsewhere(version: Long) = {
      says(q, executors(0), standing(1, version))
      q.run.footprint.isElsewhere(Seat(0, 1))
    }
    assert(isElsewhere(1))
    q.submit("one", Move(0, 1))
    for (batch <- 2L to 3L) q.plan(batch)
    assert(q.run.snapshot.get.history.sealedSteps("one").nonEmpty && !isElsewhere(3))
    q.plan(4)
    assert(isElsewhere(4))
  }

  test("workers of an executor that gets no more tasks leave at once, and are stood by for") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    val view = ClusterView(three, leaving = Set("a"))
    assert(q.run.clusterChanged(view).map(p => p.worker -> p.executor.id) == Vector(0 -> "c"))
    val begun = q.run.footprint.relocations
    assert(
      begun.map(r => (r.from, r.to, r.why, r.status)) == Vector(
        ("a", "c", Relocation.Drain, "taken")
      )
    )
    assert(q.run.standbyDutiesOf("c").map(_.worker.worker) == Vector(0), "while the query is idle")
    assert(!q.run.footprint.isElsewhere(Seat(0, 0)))
    says(q, three(2), standing(0, 1))
    assert(q.run.footprint.isElsewhere(Seat(0, 0)))
    val next = q.run.plan(2, Vector(group), true, Map.empty, view)
    assert(
      placesOf(next) == Vector("c", "b") && q.run.footprint.relocations == begun,
      "they have begun"
    )
    q.run.committed(commitOf(0, three(2), batch = 2))
    q.run.plan(3, Vector(group), true, Map.empty, view)
    assert(
      q.run.footprint.relocations
        .map(_.status) == Vector("done") && q.run.footprint.staysOn("a").isEmpty
    )
  }

  test("a relocation whose target is lost or whose worker is gone fails, and says so") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    q.run.relocate(Map(Seat(0, 0) -> "c"))
    assert(placesOf(q.plan(2, three.init)) == Vector("a", "b"))
    assert(q.run.footprint.relocations.last.reason.exists(_.contains("c gets no workers")))
    assert(q.run.standbyDutiesOf("c").isEmpty)
    q.run.see(ClusterView(three))
    q.run.relocate(Map(Seat(0, 0) -> "c"))
    q.run.cancelRelocations(Set(2))
    assert(q.run.footprint.relocations.map(_.status) == Vector("failed", "cancelled"))
    assert(q.run.standbyDutiesOf("c").isEmpty)
    q.run.relocate(Map(Seat(0, 1) -> "c"))
    q.run.submit(_ =>
      Plan("p", Map(0L -> Vector(Step(gone, 1))), "all-at-once", TransferMode.Direct)
    )
    q.plan(3, three)
    assert(q.plan(4, three).decision.sealedSteps.nonEmpty)
    q.plan(5, three)
    q.plan(6, three)
    assert(
      q.run.footprint.relocations.last.reason.contains("The query has no such worker any more.")
    )
  }

  private val gone = Vector(1, 3, 5, 7).map(Move(_, 0))

  test("a relocation whose target copies nothing fails, and the next one goes elsewhere") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    def plan(batch: Long) =
      q.run.plan(batch, Vector(group), true, Map.empty, ClusterView(three, draining = Set("b")))
    plan(1)
    val first = q.run.footprint.relocations.last.to
    (2L to 60L).foreach(plan)
    val (failed, next) = (q.run.footprint.relocations.head, q.run.footprint.relocations.last)
    assert(failed.to == first && failed.reason.exists(_.contains("copied nothing")))
    assert(next.to != first && next.isOpen)
  }

  test("a worker waits for its turn at an executor that copies others, for however long") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    q.run.relocate(Map(Seat(0, 0) -> "c", Seat(0, 1) -> "c"))
    def statuses = q.run.footprint.relocations.map(_.status)
    for (batch <- 2L to 100L) {
      def made(worker: Int, bins: Int) = standing(worker, batch - 1, isWhole = false, bins)
      says(q, three(2), made(0, batch.toInt), made(1, 0))
      q.plan(batch, three)
    }
    (101L to 148L).foreach(q.plan(_, three))
    assert(statuses == Vector("making", "making"))
    q.plan(149, three)
    assert(statuses == Vector("failed", "failed"), "nothing has been copied for too long")
  }

  test("a drain to the only executor that is left waits if that one has no room") {
    val two = three.take(2)
    val q = settledOn(two, PlacementSettings(pilotBatches = 0))
    val from = q.run.footprint.executorOf(0, 0).get
    val to = two.find(_.id != from).get
    def plan(batch: Long) =
      q.run.plan(batch, Vector(group), true, Map.empty, ClusterView(two, draining = Set(from)))
    def ofWorker = q.run.footprint.relocations.filter(_.seat == Seat(0, 0))
    plan(1)
    val worker = q.run.standbyDutiesOf(to.id).find(_.worker.worker == 0).get.worker
    q.run.reported(Report(to, Held(0, 0, 0), noRoom = Vector(worker)))
    (2L to 40L).foreach(plan)
    assert(ofWorker.map(_.status) == Seq("failed"))
    (41L to 60L).foreach(plan)
    assert(ofWorker.map(_.status) == Seq("failed", "making"))
  }

  test("a worker goes at once to an executor that had no room, and has all of its state now") {
    val two = three.take(2)
    val q = settledOn(two, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1, two)
    val from = q.run.footprint.executorOf(0, 0).get
    val to = two.find(_.id != from).get
    val worker = q.run.standbyDutiesOf(to.id).find(_.worker.worker == 0).get.worker
    q.run.reported(Report(to, Held(0, 0, 0), noRoom = Vector(worker)))
    says(q, to, standing(0, 1))
    q.run.plan(2, Vector(group), true, Map.empty, ClusterView(two, draining = Set(from)))
    val begun = q.run.footprint.relocations.filter(_.seat == Seat(0, 0))
    assert(begun.map(r => (r.to, r.status)) == Seq((to.id, "taken")))
  }

  test("an executor that has no room for a worker is asked again only after a long time") {
    val q = settledOn(three, PlacementSettings(replicas = 1, pilotBatches = 0))
    def standbyOf(batch: Long) = {
      q.plan(batch, three)
      three.map(_.id).filter(e => q.run.standbyDutiesOf(e).exists(_.worker.worker == 0))
    }
    val first = standbyOf(1).head
    val worker = q.run.standbyDutiesOf(first).find(_.worker.worker == 0).get.worker
    def hasNoRoom(executor: String) = q.run.reported(
      Report(three.find(_.id == executor).get, Held(0, 0, 0), noRoom = Vector(worker))
    )
    hasNoRoom(first)
    val second = standbyOf(2)
    assert(second.size == 1 && second != Vector(first))
    assert(standbyOf(1000) == second)
    hasNoRoom(second.head)
    assert(standbyOf(1500) == Vector(first), "which may have room by now")
    q.run.relocate(Map(Seat(0, 0) -> first))
    hasNoRoom(first)
    standbyOf(1501)
    assert(q.run.footprint.relocations.last.reason.exists(_.contains(s"$first has no room")))
  }

  test("a worker goes back where its state is after Spark has run it elsewhere, a few times") {
    val settings = PlacementSettings(pilotBatches = 0)
    val q = settledOn(three, settings)
    q.plan(1, three)
    def runsOn(executor: Int, batch: Long) =
      q.run.committed(commitOf(0, three(executor), batch = batch))
    runsOn(2, batch = 1)
    val back = q.plan(2, three)
    assert(placesOf(back) == Vector("a", "b"))
    assert(back.pins.map(p => (p.worker, p.executor.id)) == Vector((0, "a")))
    runsOn(0, batch = 2)
    assert(placesOf(q.plan(3, three)) == Vector("a", "b"))
    for (batch <- 3L to 7L) {
      runsOn(2, batch)
      assert(placesOf(q.plan(batch + 1, three)) == Vector("a", "b"))
    }
    runsOn(2, batch = 8)
    assert(placesOf(q.plan(9, three)) == Vector("c", "b"), "Spark wants it so")
    assert(placesOf(q.plan(10, three)) == Vector("c", "b"))
    val leaving = settledOn(three, settings)
    leaving.plan(1, three)
    leaving.run.committed(commitOf(0, three(2), batch = 1))
    val view = ClusterView(three, draining = Set("a"))
    assert(placesOf(leaving.run.plan(2, Vector(group), true, Map.empty, view)).head == "c")
  }

  test("a worker whose bins are about to change stays where Spark has run it") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.OnDemand))
    q.plan(1, three)
    def runs(worker: Int, on: Int, batch: Long, incomplete: Int = 0) = q.run.committed(
      commitOf(worker, three(on), batch = batch).copy(binsIncomplete = incomplete)
    )
    runs(0, on = 2, batch = 1)
    assert(placesOf(q.plan(2, three)) == Vector("c", "b"), "the step takes bins from it")
    surveyed(q, three(2))
    assert(q.plan(3, three).decision.sealedSteps.nonEmpty)
    (3L to 6L).foreach { batch =>
      runs(1, on = 1, batch, incomplete = 1)
      q.plan(batch + 1, three)
    }
    runs(1, on = 0, batch = 7, incomplete = 1)
    assert(placesOf(q.plan(8, three))(1) == "a", "b would read bins that are incomplete")
    runs(1, on = 0, batch = 8)
    q.plan(9, three)
    runs(1, on = 1, batch = 9)
    assert(placesOf(q.plan(10, three))(1) == "a", "all has come")
  }

  test("what a step on demand left on an executor that is to go comes as fast as can be") {
    val rate = TransferRate.Settings(slowdown = 0.1, maxBytesPerSecond = 1L << 30)
    val q = new Query().start(0, settings = QueryRun.Settings(transferRate = rate))
    q.plan(0)
    for (worker <- 0 to 1) q.committed(worker, on = worker, liveBytes = 100)
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.OnDemand))
    q.plan(1)
    surveyed(q, executors(0))
    assert(q.plan(2).decision.sealedSteps.nonEmpty)
    def has(exports: Int) = {
      val of = if (exports > 0) Map("r" -> exports) else Map.empty[String, Int]
      q.run.reported(Report(executors(0), Held(0, 0, 0), exports = of))
    }
    def isHurried = q.run.live.get.copyRate.besideTasks == (1L << 30)
    has(exports = 1)
    assert(!isHurried)
    q.run.see(ClusterView(executors, draining = Set("a")))
    assert(isHurried)
    has(exports = 0)
    assert(!isHurried, "relocations keep to the rate")
    has(exports = 1)
    assert(isHurried)
    q.committed(worker = 1, on = 1, batch = 2)
    q.run.see(ClusterView(executors, draining = Set("a")))
    q.run.reported(Report(executors(1), Held(0, 0, 0)))
    assert(!isHurried, "all has come")
  }

  test("the load is spread once executors have come and settled; a new one gets a pilot first") {
    val q = new Query().start(
      0,
      settings = QueryRun.Settings(placement = PlacementSettings(isAuto = true))
    )
    q.plan(0, executors.take(1))
    for (worker <- 0 to 1) q.committed(worker, on = 0, liveBytes = 100 + worker)
    q.plan(1, executors.take(1))
    q.plan(2)
    q.plan(3)
    assert(q.run.footprint.relocations.isEmpty)
    q.plan(4)
    assert(q.run.footprint.relocations.map(r => (r.seat.worker, r.to, r.why)).size == 1)
    val more = executors :+ ExecutorAddress("c", "host", 1)
    q.run.cancelRelocations(Set(1))
    q.plan(5, more)
    q.run.relocate(Map(Seat(0, 0) -> "c", Seat(0, 1) -> "c"))
    says(q, more(2), standing(0, 5), standing(1, 5))
    assert(placesOf(q.plan(6, more)) == Vector("c", "a"), "the lightest")
    assert(placesOf(q.plan(7, more)) == Vector("c", "a"), "until it has run")
    q.run.committed(commitOf(0, more(2), batch = 7))
    says(q, more(2), standing(1, 8))
    assert(placesOf(q.plan(8, more)) == Vector("c", "a"))
    assert(placesOf(q.plan(9, more)) == Vector("c", "a"))
    assert(placesOf(q.plan(10, more)) == Vector("c", "c"))
    assert(q.run.footprint.relocations.map(_.status).drop(1) == Vector("done", "taken"))
  }

  test("an executor makes the lightest of the workers first that it is to take over") {
    val q = new Query()
      .start(0, settings = QueryRun.Settings(placement = PlacementSettings(replicas = 2)))
    q.plan(0, three)
    for ((worker, bytes) <- Seq(0 -> 300L, 1 -> 200L)) q.committed(worker, on = 0, bytes)
    q.plan(1, three)
    def onC = q.run.standbyDutiesOf("c").map(_.worker.worker)
    assert(onC == Seq(0, 1), "it is to run none of them")
    q.run.relocate(Map(Seat(0, 0) -> "c"))
    assert(onC == Seq(0, 1))
    q.run.relocate(Map(Seat(0, 1) -> "c"))
    assert(onC == Seq(1, 0))
  }

  test("a relocation lets the steps of its worker go first, for a while") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0, patienceBatches = 3))
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.Prepared))
    q.plan(1, three)
    q.run.relocate(Map(Seat(0, 1) -> "c"))
    def at(batch: Long) = { says(q, three(2), standing(1, batch)); placesOf(q.plan(batch, three)) }
    assert(at(2) == Vector("a", "b") && at(3) == Vector("a", "b") && at(4) == Vector("a", "b"))
    assert(at(5) == Vector("a", "c"))
  }

  test("a step is taken from the target of a relocation that was cancelled meanwhile") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    val begun = q.run.relocate(Map(Seat(0, 0) -> "b"))
    says(q, three(1), standing(0, 1))
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.Prepared))
    assert(q.plan(2, three).assignments(0).outgoing.map(_.routes) == Vector(Vector.empty))
    q.run.cancelRelocations(begun.map(_.id).toSet)
    says(q, three(1), standing(0, 2))
    assert(q.plan(3, three).decision.sealedSteps.nonEmpty)
  }
}
