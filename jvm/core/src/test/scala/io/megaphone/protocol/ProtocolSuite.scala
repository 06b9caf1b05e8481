// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import scala.collection.immutable.ArraySeq

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{ExecutorAddress, StateName}
import io.megaphone.plan.{Group, Move, Operator, RoutingTable, Step, TransferMode}

/** What is announced, prepared and sealed, batch by batch, in one run. */
class ProtocolSuite extends AnyFunSuite with ProtocolRun {
  import Protocol._

  test("a direct plan is announced by one batch, and its steps are sealed by the next ones") {
    val run = newRun.submit("p", TransferMode.Direct, moveOne, moveTwo)
    val one = run.plan(1)
    assert(sealedIn(one).isEmpty && announcedIn(one) == Vector("p.0.0") && one.after == one.before)
    val two = run.plan(2)
    assert(
      sealedIn(two) == Vector("p.0.0") && announcedIn(two) == Vector("p.0.1") && two
        .after(0)
        .workerOf(0) == 1 && two.before(0).workerOf(0) == 0
    )
    val three = run.plan(3)
    assert(
      sealedIn(three) == Vector("p.0.1") && announcedIn(three).isEmpty && three.before == two.after
    )
    val four = run.plan(4)
    assert(sealedIn(four).isEmpty && run.state.history.open.isEmpty)
    assert(four.before == three.after && four.after == three.after)
    assert(Duties.liveSteps(run.state).isEmpty)
  }

  test("a prepared step waits for its copies, which must be of one of the last versions") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    run.plan(1)
    val (executor, duty) = dutiesOf(run).head
    assert(
      executor == "b" && duty.bins == Vector(0) && duty.image.contains(
        StateName(1, StateName.FixedId)
      ) && duty.address.contains(ExecutorAddress("a", "host", 1))
    )
    assert(sealedIn(run.plan(2)).isEmpty)
    assert(dutiesOf(run).map(_._2.settled.version) == Vector(2L))
    run.ready(0, 0, 1, version = 1)
    assert(sealedIn(run.plan(3)) == Vector("p.0.0"))

    val late = newRun.submit("p", TransferMode.Prepared, moveOne)
    late.plan(1)
    late.ready(0, 0, 1, version = 1)
    late.plan(2, isOwn = false)
    late.plan(3, isOwn = false)
    assert(sealedIn(late.plan(4)).isEmpty, "the copy is three versions old")
  }

  test("a step that moves more than images can bring is made of files, and is waited for") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    assert(run.plan(1, imageBytesMax = 1).announced.map(_.isOfFiles) == Vector(true))
    val (executor, duty) = dutiesOf(run).head
    assert(executor == "b" && duty.image.isEmpty && duty.liveBytes.contains(20L), "a bin of four")
    assert(sealedIn(run.plan(2)).isEmpty && dutiesOf(run).head._2.image.isEmpty)
    run.ready(0, 0, 1, version = 1)
    assert(sealedIn(run.plan(3)) == Vector("p.0.0"))

    val fits = newRun.submit("p", TransferMode.Prepared, moveOne)
    assert(fits.plan(1, imageBytesMax = 2).announced.map(_.isOfFiles) == Vector(false))
    fits.plan(2, imageBytesMax = 1)
    assert(dutiesOf(fits).head._2.image.map(_.version).contains(1L), "it is announced already")
    val direct = newRun.submit("p", TransferMode.Direct, moveOne)
    assert(direct.plan(1, imageBytesMax = 1).announced.map(_.isOfFiles) == Vector(false))
  }

  test("steps that are announced together have images as long as all of these can be brought") {
    val steps = Vector(0, 2).map(bin => Step(Vector(Move(bin, 1)), 2)) // 2 bytes each
    def ofFiles(imageBytesMax: Long) = newRun
      .submit("p", TransferMode.Prepared, steps: _*)
      .plan(1, imageBytesMax = imageBytesMax)
      .announced
      .map(_.isOfFiles)
    assert(ofFiles(4) == Vector(false, false) && ofFiles(3) == Vector(false, true))
  }

  test("images of another group that are announced already count as well") {
    val other = Group(Vector(Operator(10, "aggregate", Vector("default"))), 2)
    val bytes = small ++ small.map { case ((_, worker), b) => (10L, worker) -> b }
    val run = new Run("r", new Log, Vector(group, other)).start(0)
    run.plan(0)
    run.submitTo(10, "q", TransferMode.Prepared, moveOne).plan(1, stateBytes = bytes)
    run.submit("p", TransferMode.Prepared, moveOne)
    val announced = run.plan(2, stateBytes = bytes, imageBytesMax = 3).announced
    assert(announced.map(a => a.id.planId -> a.isOfFiles) == Vector("p" -> true, "q" -> false))
  }

  test("a bin that has just come to its source is prepared from the next batch on, of files") {
    val back = Step(Vector(Move(0, 0)), 2)
    val run = newRun.submit("p", TransferMode.Prepared, moveOne, back)
    run.plan(1)
    run.ready(0, 0, 1, version = 1)
    assert(sealedIn(run.plan(2)) == Vector("p.0.0") && dutiesOf(run).isEmpty)
    run.plan(3)
    val (executor, duty) = dutiesOf(run).head
    assert(executor == "a" && duty.key.source == 1 && duty.image.isEmpty)
    assert(duty.settled.version == 3)
  }

  test("a copy that went with its executor is ready no more") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    run.plan(1)
    run.ready(0, 0, 1, version = 1).feed(ExecutorLost("b"))
    assert(sealedIn(run.plan(2)).isEmpty)
  }

  test("patience: a step whose copies do not get ready is sealed all the same") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    assert((1L to 6L).map(n => sealedIn(run.plan(n)).size) == Vector(0, 0, 0, 0, 1, 0))
  }

  test("patience: a step waits as long as copies progress, and no longer") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    val sealedAt = (1L to 12L).filter { n =>
      val isSealed = sealedIn(run.plan(n)).nonEmpty
      if (n <= 6) run.feed(CopiesProgressed)
      isSealed
    }
    assert(sealedAt == Seq(10))
  }

  test("the steps that are announced at once move so many bytes at most, or are one step") {
    def announced(stateBytes: Long) = {
      val run = newRun.submit("p", TransferMode.Prepared, moveOne, moveTwo)
      run.plan(1, stateBytes = Map((0L, 0) -> stateBytes)) // of four bins
      (run, announcedIn(run.state.decision.get))
    }
    assert(announced(4 * 500)._2 == Vector("p.0.0", "p.0.1"))
    assert(announced(4 * 501)._2 == Vector("p.0.0"))
    assert(announced(1 << 20)._2 == Vector("p.0.0"))
    val unknown = newRun.submit("p", TransferMode.Prepared, moveOne, moveTwo)
    assert(announcedIn(unknown.plan(1, stateBytes = Map((0L, 1) -> 4L))) == Vector("p.0.0"))
    assert(announcedIn(unknown.plan(2)) == Vector("p.0.0", "p.0.1"), "now it is known")
    val (run, _) = announced(4 * 500)
    run.plan(2, stateBytes = Map((0L, 0) -> (1 << 20)))
    assert(announcedIn(run.state.decision.get) == Vector("p.0.0", "p.0.1"), "both go on")
  }

  test("what an executor reports that is not the target any more does not count") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    run.plan(1)
    run.ready(0, 0, 1, version = 1)
    assert(sealedIn(run.plan(2, placement = Vector("a", "c"))).isEmpty, "b had it, and c has not")
    val refused = newRun.submit("p", TransferMode.Prepared, moveOne)
    refused.plan(1)
    refused.refused(0, 0, 1)
    val over = (2L to 5L).map(n => refused.plan(n, placement = Vector("a", "c"))).last
    assert(over.sealedSteps.flatMap(_.step.moves) == Vector(Move(0, 1)), "c may have room")
  }

  test("moves on one executor need no copy") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    val here = Vector("a", "a")
    run.plan(1, placement = here)
    assert(dutiesOf(run).isEmpty && sealedIn(run.plan(2, placement = here)) == Vector("p.0.0"))
  }

  test(
    "a step's routes: none to an executor with the source's state, all if none is known"
  ) {
    val table = RoutingTable.roundRobin(8, 4)
    val step = Step(Vector(Move(0, 1), Move(4, 1), Move(1, 2), Move(2, 2), Move(3, 0)), 4)
    val all =
      Vector(Route(0, 1, ArraySeq(0, 4)), Route(1, 2, ArraySeq(1)), Route(3, 0, ArraySeq(3)))
    assert(Route.of(step, table, Whereabouts(Vector("a", "a", "b", "b"))) == all.drop(1))
    assert(Route.of(step, table, Whereabouts(Vector("a", "a", "a", "a"))).isEmpty)
    assert(Route.of(step, table, Whereabouts(Vector.empty)) == all)
    val standbys = Vector(Set("b"), Set("a"), Set("a"))
    val where = Whereabouts(Vector("a", "b", "c", "b"), standbys)
    assert(Route.of(step, table, where) == all.drop(1), "b stands by for worker 0")
  }

  test("the window bounds what is announced at once") {
    val steps = Vector(0, 2, 4, 6).map(bin => Step(Vector(Move(bin, 1)), 2))
    val run = newRun.submit("p", TransferMode.Prepared, steps: _*)
    assert(announcedIn(run.plan(1)) == Vector("p.0.0", "p.0.1"))
  }

  test("the gap: a bin moves again only some batches later") {
    val run = newRun.submit("p", TransferMode.Direct, moveOne, Step(Vector(Move(0, 0)), 2))
    assert((1L to 6L).filter(n => run.plan(n).sealedSteps.nonEmpty) == Vector(2L, 5L))
  }

  test("cancel: what is sealed stays, the rest is never sealed, and no duty is left") {
    val run = newRun.submit("p", TransferMode.Direct, moveOne, moveTwo)
    run.plan(1)
    val two = run.plan(2)
    run.feed(PlanCancelled("p"))
    val three = run.plan(3)
    assert(sealedIn(three).isEmpty && announcedIn(three).isEmpty && three.after == two.after)
  }
}
