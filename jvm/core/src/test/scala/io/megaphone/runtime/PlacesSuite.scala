// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.immutable.ArraySeq

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{ExecutorAddress, StoreId}
import io.megaphone.placement.Seat
import io.megaphone.plan.{Move, Plan, Step, TransferMode}
import io.megaphone.protocol.{Protocol, Route}
import io.megaphone.state.{Reached, ReplicaKey}

/** Where workers are placed, and their standbys. */
class PlacesSuite extends AnyFunSuite with PlacedRun {
  test("workers are pinned where they are wanted, until they are known to run there") {
    val q = new Query().start(0)
    def pins(p: BatchPlan) = p.pins.map(pin => pin.worker -> pin.executor.id)
    def ran(worker: Int, on: Int) = q.committed(worker, on)
    assert(pins(q.plan(0)) == Vector(0 -> "a", 1 -> "b"))
    ran(0, on = 0)
    ran(1, on = 1)
    assert(pins(q.plan(1)).isEmpty)
    assert(pins(q.plan(2, executors.take(1))) == Vector(1 -> "a"), "its executor is gone")
    ran(1, on = 0)
    assert(pins(q.plan(3)).isEmpty, "a worker stays where it runs")
  }

  test(
    "several consecutive steps of a plan are taken by one batch, none of whose bins moves twice"
  ) {
    val settings = QueryRun.Settings(Protocol.Settings(stepsPerBatch = 3))
    val q = new Query().start(0, settings = settings)
    q.plan(0)
    val steps = Vector(Move(0, 1), Move(2, 1), Move(0, 0), Move(4, 1)).map(m => Step(Vector(m), 2))
    q.run.submit(_ => Plan("p", Map(0L -> steps), "fluid", TransferMode.Prepared))
    q.plan(1)
    for (
      (step, key) <- q.run.snapshot.get.announced.map(_.id).zip(Seq((0, 1), (0, 1), (0, 0), (0, 1)))
    )
      q.run.reported(
        Report(
          executors(1),
          Held(0, 0, 0),
          Vector(
            Reached(ReplicaKey.forStep(StoreId(0, "default").in("r"), key._1, key._2, step), 1)
          )
        )
      )
    val planned = q.plan(2)
    assert(planned.decision.sealedSteps.map(_.id.index) == Vector(0, 1))
    assert(planned.assignments(0).incoming.map(_.bins) == Vector(Vector(0), Vector(2)))
    assert(q.run.snapshot.get.history.sealedSteps("p").keySet.map(_.index) == Set(0, 1))
  }

  test("no worker is placed on an executor that leaves, unless all do") {
    val q = begun
    def wanted(leaving: String*) = q.run
      .plan(1, Vector(group), true, Map.empty, ClusterView(executors, leaving.toSet))
      .decision
      .batch
      .executorsOf(0)
    assert(wanted("a") == Vector("b", "b"))
    q.submit("p", Move(0, 1))
    val all = q.run.plan(2, Vector(group), true, Map.empty, ClusterView(executors, Set("a", "b")))
    assert(all.decision.batch.executorsOf(0) == Vector("b", "b"), "there is no other")
  }

  test("a lost executor's workers go where the newest whole standby is, at once") {
    val q = new Query()
      .start(0, settings = QueryRun.Settings(placement = PlacementSettings(replicas = 2)))
    q.plan(0, three)
    assert(Seq("a", "b", "c").forall(q.run.standbyDutiesOf(_).isEmpty), "there is no state yet")
    for (worker <- 0 to 1) q.committed(worker, on = worker, liveBytes = 100)
    q.plan(1, three)
    val duties = q.run.standbyDutiesOf("c")
    assert(duties.map(_.worker.worker) == Seq(0, 1) && duties.forall(_.settled.version == 1))
    assert(duties.map(_.bins) == Seq(Vector(0, 2, 4, 6), Vector(1, 3, 5, 7)))
    assert(q.run.standbyDutiesOf("a").map(_.worker.worker) == Seq(1))
    def report(executor: Int, of: Standing*) =
      q.run.reported(Report(three(executor), Held(0, 0, 0), standing = of.toVector))
    report(1, standing(0, 1, isWhole = false))
    report(2, standing(0, 0))
    assert(
      q.run.footprint.standbysOf(group, 0) == Seq("c") && q.run.footprint.standbys == Map("c" -> 1)
    )
    def pins(seen: Vector[ExecutorAddress]) =
      q.run.clusterChanged(ClusterView(seen)).map(p => p.worker -> p.executor.id)
    assert(pins(three.tail) == Seq(0 -> "c"), "the one that is whole, although b has it newer")
    report(2)
    assert(pins(three.tail) == Seq(0 -> "c"), "it stays there")
    assert(q.run.footprint.losses == Vector(Loss("a", 1, workers = 1, promoted = 1)))
    assert(
      q.run
        .takeNews() == PlacingNews(q.run.footprint.losses, Vector.empty) && q.run.takeNews().isEmpty
    )
    assert(q.plan(1, three.tail).decision.batch.number == 1)
    assert(q.plan(2, three.tail).decision.batch.executorsOf(0) == Vector("c", "b"))
  }

  test("a lost executor's workers go where most of their state is, if nobody has all of it") {
    def goesTo(bins: Int, hasRoom: Boolean = true): Seq[String] = {
      val q = settledOn(three, PlacementSettings(replicas = 2))
      q.plan(1, three)
      val noRoom = if (hasRoom) Vector.empty else Vector(standing(0, 1).worker)
      val some = Vector(standing(0, 1, isWhole = false, bins))
      q.run.reported(Report(three(1), Held(0, 0, 0), standing = some, noRoom = noRoom))
      val pins = q.run.clusterChanged(ClusterView(three.tail)).filter(_.worker == 0)
      assert(q.run.footprint.losses.map(_.promoted) == Seq(0), "some bins are read from files")
      pins.map(_.executor.id)
    }
    assert(goesTo(bins = 3) == Seq("b") && goesTo(bins = 2) == Seq("c"), "of four")
    assert(goesTo(bins = 3, hasRoom = false) == Seq("c"))
  }

  test("a lost executor's workers go to a standby that may get them, although another is newer") {
    val four = three :+ ExecutorAddress("d", "host", 1)
    for (isLeaving <- Seq(false, true)) {
      val q = settledOn(four, PlacementSettings(replicas = 2))
      q.plan(1, four)
      says(q, four(1), standing(0, 2))
      says(q, four(3), standing(0, 1))
      val b = Set("b")
      val view =
        if (isLeaving) ClusterView(four.tail, leaving = b) else ClusterView(four.tail, draining = b)
      val pins = q.run.clusterChanged(view).filter(_.worker == 0)
      assert(pins.map(_.executor.id) == Seq("d"), "c has nothing")
      assert(q.run.footprint.losses.map(_.promoted) == Seq(1))
    }
  }

  test("a standby on an executor that is to be emptied ends once no other executor has room") {
    val q = settledOn(three, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1, three)
    def of(executor: String) = q.run.standbyDutiesOf(executor).find(_.worker.worker == 0)
    val there = three.find(e => of(e.id).isDefined).get
    val other = three.find(e => e.id != "a" && e != there).get
    def plan(batch: Long) = {
      val view = ClusterView(three, draining = Set(there.id))
      q.run.plan(batch, Vector(group), true, Map.empty, view)
      says(q, there, standing(0, batch))
    }
    says(q, there, standing(0, 1))
    (2L to 9L).foreach(plan)
    def onThere = q.run.footprint.on(there.id, "q", "r", isIdle = false, None)
    assert(of(there.id).isDefined && of(other.id).isDefined && onThere.withoutRoom.isEmpty)
    q.run.reported(Report(other, Held(0, 0, 0), noRoom = Vector(of(other.id).get.worker)))
    assert(onThere.standbysLacking > 0 && onThere.withoutRoom == Vector(other.id))
    plan(10)
    assert(of(there.id).isEmpty && of(other.id).isDefined, "it may have room one day")
    assert(onThere.standbysLacking == 0)
  }

  test("a standby that falls behind counts as none, and another executor is asked after a while") {
    val q = settledOn(three, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1, three)
    val first = three.map(_.id).find(q.run.standbyDutiesOf(_).exists(_.worker.worker == 0)).get
    def at(batch: Long) = {
      q.plan(batch, three)
      val asked = three.map(_.id).filter(q.run.standbyDutiesOf(_).exists(_.worker.worker == 0))
      sayStandbys(q, batch) { case (`first`, 0) => standing(0, 1) } // it gets no further
      (q.run.footprint.standbysOf(group, 0), asked)
    }
    assert(at(16) == ((Seq(first), Seq(first))), "its tails lead on")
    assert((17L to 67L).forall(at(_) == ((Nil, Seq(first)))) && q.warnings.isEmpty)
    val other = at(68)._2
    assert(other.size == 1 && other != Seq(first))
    assert(at(69) == ((Nil, other)))
    assert(q.warnings.map(_.startsWith(s"Query r: Executor $first does not come")) == Seq(true))
    val lost = three.filterNot(_.id == "a")
    assert(q.run.clusterChanged(ClusterView(lost)).exists(_.worker == 0))
    assert(q.run.footprint.losses.map(_.promoted) == Seq(0), "it would read everything")
  }

  test("a standby that is never whole is asked of another executor after a while") {
    val q = settledOn(three, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1, three)
    def asked = three.map(_.id).filter(q.run.standbyDutiesOf(_).exists(_.worker.worker == 0))
    val first = asked.head
    for (batch <- 2L to 50L) {
      // It has two bins, or has lost them.
      sayStandbys(q, batch) {
        case (_, 0) if batch % 2 == 0 => standing(0, batch, isWhole = false, bins = 2)
      }
      q.plan(batch, three)
      assert(asked == Seq(first) && q.warnings.isEmpty)
    }
    q.plan(51, three)
    assert(asked.size == 1 && asked != Seq(first))
    (52L to 60L).foreach(q.plan(_, three))
    assert(q.warnings.map(_.startsWith(s"Query r: Executor $first does not come")) == Seq(true))
  }

  test("that there are too few executors for the standbys is said once, until it changes") {
    val q = new Query()
      .start(0, settings = QueryRun.Settings(placement = PlacementSettings(replicas = 2)))
    def told(batch: Long, seen: Vector[ExecutorAddress]) = {
      val before = q.warnings.size
      q.plan(batch, seen)
      q.warnings.drop(before)
    }
    val first = told(0, executors)
    assert(first.size == 1)
    for (said <- Seq("asks for 2 standbys", "take state is 2.", "at least 3 executors"))
      assert(first.head.contains(said))
    assert(told(0, executors).isEmpty && told(1, executors).isEmpty)
    assert(told(2, three).isEmpty && told(3, three.take(1)).exists(_.contains("state is 1.")))
    assert(told(4, executors).size == 1 && told(5, three).isEmpty && told(6, executors).size == 1)
    val without = begun
    without.plan(1, executors.take(1))
    assert(without.warnings.isEmpty, "nobody asks for standbys")
  }

  test("bins that leave a worker with the batch are not stood by for") {
    val q = new Query()
      .start(0, settings = QueryRun.Settings(placement = PlacementSettings(replicas = 1)))
    q.plan(0)
    for (worker <- 0 to 1) q.committed(worker, on = worker, liveBytes = 100)
    q.submit("p", Move(0, 1))
    q.plan(1)
    val step = q.plan(2)
    assert(step.decision.sealedSteps.nonEmpty)
    assert(q.run.standbyDutiesOf("b").map(_.bins) == Seq(Vector(2, 4, 6)))
    assert(q.run.standbyDutiesOf("a").map(_.bins) == Seq(Vector(1, 3, 5, 7)))
  }

  test(
    "in mode replicated nothing is copied for who is stood by for, and the others are prepared"
  ) {
    val q = settledOn(executors, PlacementSettings(replicas = 1))
    q.plan(1)
    says(q, executors(1), standing(0, 1))
    val exchange = Step(Vector(Move(0, 1), Move(1, 0)), 2)
    val plan = Plan("p", Map(0L -> Vector(exchange)), "all-at-once", TransferMode.Replicated)
    q.run.submit(_ => plan)
    val announced = q.plan(2)
    val other = Route(1, 0, ArraySeq(1)) // nobody stands by for worker 1
    assert(announced.assignments(0).outgoing.map(_.routes) == Vector(Vector(other)))
    for (worker <- 0 to 1) q.committed(worker, on = worker, liveBytes = 100, batch = 2)
    assert(q.run.dutiesOf("b").isEmpty && q.run.dutiesOf("a").map(_.key.source) == Seq(1))
    says(q, executors(1), standing(0, 2))
    assert(q.plan(3).decision.sealedSteps.isEmpty, "the other is not ready")
    says(q, executors(1), standing(0, 3))
    val ready = Vector(Reached(q.run.dutiesOf("a").head.key, 3))
    q.run.reported(Report(executors(0), Held(0, 0, 0), ready))
    assert(q.plan(4).decision.sealedSteps.nonEmpty)
  }

  test("a standby stays where a step relies on it, also if others should stand by") {
    val q = settledOn(executors, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1)
    says(q, executors(1), standing(0, 1))
    q.submit("p", Move(0, 1))
    assert(q.plan(2).assignments(0).outgoing.map(_.routes) == Vector(Vector.empty), "b has it")
    def onB = q.run.standbyDutiesOf("b").map(_.worker.worker).contains(0)
    def emptied(batch: Long) = {
      says(q, three(2), standing(0, batch), standing(1, batch))
      q.run.plan(batch, Vector(group), true, Map.empty, ClusterView(three, draining = Set("b")))
    }
    q.run.clusterChanged(ClusterView(three, draining = Set("b")))
    assert(emptied(3).decision.sealedSteps.nonEmpty && onB, "the batch takes its bins")
    assert(q.run.footprint.standbysOn("b", isIdle = false) == Vector(Seat(0, 0)))
    assert(q.run.footprint.standbysOn("b", isIdle = true).isEmpty, "no batch may come")
    emptied(4)
    assert(!onB, "it is over")
  }

  test("a source lends what a step on demand takes, also if the target's executor stands by") {
    val q = settledOn(executors, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1)
    says(q, executors(1), standing(0, 1))
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.OnDemand))
    assert(q.plan(2).assignments(0).outgoing.map(_.routes) == Vector(Vector.empty), "b has it")
    says(q, executors(1), standing(0, 2))
    val incoming = q.plan(3).assignments(0).incoming
    assert(incoming.flatMap(_.onDemand) == Vector(Vector(Route(0, 1, ArraySeq(0)))))
  }

  /** A run whose batch 2 sends worker 0 from a to c. */
  private def sendingToC: Query = {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    q.run.relocate(Map(Seat(0, 0) -> "c"))
    says(q, three(2), standing(0, 2))
    assert(placesOf(q.plan(2, three)) == Vector("c", "b"))
    q
  }

  test("an executor keeps the state of a worker that the batch under way sends there") {
    val q = sendingToC
    def onC = q.run.standbyDutiesOf("c").nonEmpty
    q.run.clusterChanged(ClusterView(three, draining = Set("c")))
    assert(onC, "its task may open there yet")
    q.run.relocate(Map(Seat(0, 0) -> "b"))
    assert(onC && q.run.standbyDutiesOf("b").nonEmpty)
    q.plan(3, three)
    assert(!onC, "the batch is over")
  }

  test("a worker that has arrived has no standby where it runs") {
    val q = sendingToC
    q.run.clusterChanged(ClusterView(three))
    q.run.committed(commitOf(0, three(2), batch = 2))
    q.run.batchEnded(2, 100)
    assert(q.run.footprint.relocations.map(_.status) == Vector("done"))
    assert(q.run.standbyDutiesOf("c").isEmpty && q.run.footprint.standbysOf(group, 0).isEmpty)
  }
}
