// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.History
import io.megaphone.checkpoint.planlog.LogRecord._
import io.megaphone.plan.{Move, RoutingTable, Step, TransferMode}

/** Runs after one another, and records whose numbers are taken. */
class ReplaySuite extends AnyFunSuite with ProtocolRun {
  import Protocol._

  test("rule 5: a batch that is planned twice gets the same decision, whatever happened between") {
    val run = newRun.submit("p", TransferMode.Direct, moveOne)
    run.plan(1)
    val first = run.plan(2)
    run.submit("q", TransferMode.Direct, moveTwo).feed(PlanCancelled("p"))
    assert(run.plan(2) eq first)
  }

  test(
    "a run's first batch takes a step that was not announced; a replayed first batch takes none"
  ) {
    val log = new Log
    val before = newRun(log)
    before.submit("p", TransferMode.Prepared, moveOne)
    val own = new Run("s", log).start(1)
    assert(sealedIn(own.plan(1)) == Vector("p.0.0"))

    val other = new Log
    val crashed = newRun(other)
    crashed.submit("p", TransferMode.Prepared, moveOne)
    val replay = new Run("s", other).start(1)
    assert(sealedIn(replay.plan(1, isOwn = false)).isEmpty)
  }

  test("a replay goes by the seal of its batch, and does not count the step twice") {
    val log = new Log
    val run = newRun(log)
    run.submit("p", TransferMode.Direct, moveOne, moveTwo)
    run.plan(1)
    val ran = run.plan(2)
    val replay = new Run("s", log).start(2)
    val again = replay.plan(2, isOwn = false)
    assert(again.before == ran.before && again.after == ran.after && again.sealedSteps.isEmpty)
    assert(announcedIn(again) == Vector("p.0.1"))
    assert(replay.plan(3).after(0).workerOf(2) == 1)
  }

  test("H6: a seal whose number is taken fails the batch") {
    val log = new Log
    val paused = newRun(log)
    paused.submit("p", TransferMode.Direct, moveOne)
    paused.plan(1)
    new Run("s", log).start(1)
    paused.feed(BatchPlanning(Batch(2, isOwn = true, Map.empty, Map.empty)))
    assert(
      paused.failure.exists(_.contains("Batch 2")) && !log.records.exists(_.isInstanceOf[Sealed])
    )
  }

  test("H6: a seal that may be written or not fails the batch, and the replay goes by it") {
    val log = new Log
    val run = newRun(log)
    run.submit("p", TransferMode.Direct, moveOne)
    run.plan(1)
    run.isAppendUnsure = true
    run.feed(BatchPlanning(Batch(2, isOwn = true, Map.empty, Map(0L -> Vector("a", "b")))))
    assert(run.failure.isDefined)
    assert(new Run("s", log).start(2).plan(2, isOwn = false).after(0).workerOf(0) == 1)
  }

  test("a start record whose number is taken by an older run's record reads on") {
    val log = new Log
    val old = newRun(log)
    val seen = History.of(log.records)
    old.submit("p", TransferMode.Direct, moveOne)
    val run = new Run("s", log).start(1, seen)
    assert(run.failure.isEmpty && log.records.last == run.state.history.last.get)
    assert(run.state.history.open.map(_.id) == Vector("p"))
  }

  test(
    "H6: a run gives up if a newer run, or one that is ahead, has taken its start record's number"
  ) {
    val log = new Log
    val old = newRun(log)
    val seen = History.of(log.records)
    old.submit("p", TransferMode.Direct, moveOne)
    old.plan(1)
    old.plan(2)
    assert(new Run("s", log).start(1, seen).failure.exists(_.contains("batch 2")))
    new Run("t", log).start(2)
    assert(
      new Run("u", log).start(2, History.of(log.records.init)).failure.exists(_.contains("run t"))
    )
    assert(log.records.count(_.isInstanceOf[Started]) == 2)
  }

  test(
    "rule 6: a first batch that another run has started from since takes no step"
  ) {
    val log = new Log
    val old = newRun(log)
    old.submit("p", TransferMode.Direct, moveOne)
    val newer = new Run("s", log).start(1)
    val without = newer.plan(1, isOwn = false)
    val late = new Run("t", log).start(1)
    assert(late.plan(1, isOwn = true).after == without.after)
  }

  test(
    "H8: after going back a plan goes on from its valid seals; one that no longer fits is cancelled"
  ) {
    val log = new Log
    val run = newRun(log)
    run.submit(
      "empty",
      TransferMode.Direct,
      Step(Vector(Move(1, 0), Move(3, 0)), 2),
      Step(Vector(Move(1, 1)), 2)
    )
    run.plan(1)
    run.plan(2)
    run.feed(PlanCancelled("empty"))
    run.submit("shrink", TransferMode.Direct, Step(Vector(Move(5, 0), Move(7, 0)), 1))
    val back = new Run("s", log).start(1)
    val one = back.plan(1)
    assert(
      one.after(0) == RoutingTable.roundRobin(
        8,
        2
      ) && back.state.history.open.isEmpty && log.records.last == Cancelled(
        "shrink",
        Some(Planning.Misfit)
      )
    )
    assert(back.plan(2).after == one.after)
  }

  test("plans that going back has opened again run one after the other") {
    val log = new Log
    val run = newRun(log)
    run.submit("grow", TransferMode.Direct, Step(Vector(Move(0, 2)), 3))
    run.plan(1)
    run.plan(2)
    run.submit("onto", TransferMode.Direct, Step(Vector(Move(1, 2)), 3))
    run.plan(3)
    run.plan(4)
    val back = new Run("s", log).start(1)
    assert(
      (1L to 4L).map(n => sealedIn(back.plan(n, isOwn = n > 1))) == Vector(
        Vector(),
        Vector("grow.0.0"),
        Vector("onto.0.0"),
        Vector()
      )
    )
  }
}
