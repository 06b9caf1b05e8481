// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.StoreId
import io.megaphone.plan.{Move, Step, StepId, TransferMode}

/** Steps on demand: when they take effect, and when they are complete. */
class DemandSuite extends AnyFunSuite with ProtocolRun {
  import Protocol._

  private val store = StoreId(0, "default")
  private def incompleteIn(d: Decision) = d.incomplete(0).toVector.sorted

  test("a step on demand waits until its sources have surveyed what it takes, not for ever") {
    def begun = {
      val run = newRun.submit("p", TransferMode.OnDemand, Step(Vector(Move(0, 1), Move(1, 0)), 2))
      assert(announcedIn(run.plan(1)) == Vector("p.0.0"))
      run
    }
    val run = begun.surveyed(0, 0, 1, on = "a").surveyed(0, 1, 0, on = "a")
    assert(sealedIn(run.plan(2)).isEmpty, "worker 1 is placed on b")
    run.surveyed(0, 1, 0, on = "b")
    assert(sealedIn(run.plan(3)) == Vector("p.0.0"))
    val atOnce = begun.surveyed(0, 0, 1, on = "a").surveyed(0, 1, 0, on = "b")
    assert(sealedIn(atOnce.plan(2)) == Vector("p.0.0"), "a small state costs no batch")
    val silent = begun
    assert((2 to 5).map(n => sealedIn(silent.plan(n.toLong)).size) == Seq(0, 0, 0, 1))
    val slow = begun
    slow.plan(2)
    slow.feed(CopiesProgressed)
    assert((3 to 6).map(n => sealedIn(slow.plan(n.toLong)).size) == Seq(0, 0, 0, 1))
    val lost = begun.surveyed(0, 0, 1, on = "a").surveyed(0, 1, 0, on = "b")
    lost.feed(ExecutorLost("a"))
    assert(sealedIn(lost.plan(2)).isEmpty)
  }

  test("a step on demand is complete once its workers have all") {
    val run = newRun.submit("p", TransferMode.OnDemand, moveOne, Step(Vector(Move(0, 0)), 2))
    assert(announcedIn(run.plan(1)) == Vector("p.0.0"))
    assert(sealedIn(run.plan(2)).isEmpty)
    val taken = run.surveyed(0, 0, 1, on = "a").plan(3)
    assert(sealedIn(taken) == Vector("p.0.0") && incompleteIn(taken) == Vector(0))
    def live = Duties.liveSteps(run.state).map(_.toString)
    val going = (4 to 9).map(n => run.plan(n.toLong))
    assert(
      going.forall(d => incompleteIn(d) == Vector(0) && sealedIn(d).isEmpty),
      "it may not move"
    )
    assert(live("p.0.0"))
    run.feed(WorkerWhole(store, 1, version = 3)) // of before the step
    assert(live("p.0.0") && incompleteIn(run.plan(10)) == Vector(0))
    run.feed(WorkerWhole(store, 1, version = 10))
    assert(!live("p.0.0"), "nobody asks its sources any more")
    assert(run.state.history.incompleteAt(0, 10).nonEmpty, "a fact of the batch's plan")
    val complete = run.plan(11)
    assert(incompleteIn(complete).isEmpty)
    assert(run.state.history.sealAt(11).exists(_.completed == Vector(StepId("p", 0, 0))))
    run.surveyed(1, 1, 0, on = "b")
    assert(sealedIn(run.plan(12)) == Vector("p.0.1"), "and it may move")
    assert(run.state.history.trimmed(13).incompleteAt(0, 13).map(_.step.index) == Vector(1))
  }

  test("a step that moves bins that are incomplete is announced once they are whole") {
    for (mode <- Seq(TransferMode.Prepared, TransferMode.Direct, TransferMode.OnDemand)) {
      val run = newRun.submit("p", TransferMode.OnDemand, moveOne)
      run.plan(1)
      run.surveyed(0, 0, 1, on = "a")
      assert(sealedIn(run.plan(2)) == Vector("p.0.0"))
      run.submit("q", mode, Step(Vector(Move(2, 1)), 2), Step(Vector(Move(0, 0)), 2))
      def announced(batch: Int) = announcedIn(run.plan(batch.toLong))
      assert(announced(3) == Vector("q.0.0"), "it moves another one")
      assert((4 to 20).flatMap(announced).forall(_ == "q.0.0"))
      run.feed(WorkerWhole(store, 1, version = 20))
      assert((21 to 23).flatMap(announced).contains("q.0.1"), mode)
    }
  }

  test("the window bounds the steps on demand that are incomplete at once") {
    val steps = Vector(0, 2, 4).map(bin => Step(Vector(Move(bin, 1)), 2))
    val run = newRun.submit("p", TransferMode.OnDemand, steps: _*)
    run.plan(1)
    def sealedAt(batch: Int) = {
      (0 to 2).foreach(run.surveyed(_, 0, 1, on = "a"))
      sealedIn(run.plan(batch.toLong))
    }
    assert((2 to 12).flatMap(sealedAt) == Vector("p.0.0", "p.0.1"))
    run.feed(WorkerWhole(store, 1, version = 12))
    assert((13 to 15).flatMap(sealedAt) == Vector("p.0.2"))
  }

  test(
    "what a run left incomplete is complete from the first batch that the next one logs itself"
  ) {
    for (isOwn <- Seq(true, false)) {
      val log = new Log
      val run = new Run("r", log).start(0)
      (0 to 1).foreach(n => run.plan(n.toLong))
      run.submit("p", TransferMode.OnDemand, moveOne)
      run.plan(2)
      run.surveyed(0, 0, 1, on = "a")
      (3 to 5).foreach(n => run.plan(n.toLong))
      assert(run.state.history.incompleteAt(0, 5).nonEmpty)
      val next = new Run("again", log).start(6)
      val first = next.plan(6, isOwn = isOwn)
      assert(incompleteIn(first) == (if (isOwn) Vector.empty else Vector(0)))
      if (!isOwn) {
        next.feed(WorkerWhole(store, 1, version = 7))
        assert(incompleteIn(next.plan(7)).isEmpty)
      }
      val later = new Run("third", log).start(8)
      assert(incompleteIn(later.plan(8)).isEmpty)
    }
  }
}
