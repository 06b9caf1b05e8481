// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.{History, LogRecord, Verdict}
import io.megaphone.checkpoint.planlog.LogRecord.{Cancelled, Sealed, Started, Submitted}
import io.megaphone.plan.{
  Group, Move, Operator, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode
}
import io.megaphone.protocol.{PlanStatus, Protocol}

/** Which plans are over, as a plan log says. */
class PlansOfRunSuite extends AnyFunSuite {
  private val groups = Vector(Group(Vector(Operator(0, "stateStoreSave", Vector("default"))), 2))
  private val table = Map(0L -> RoutingTable.roundRobin(4, 2))

  private def started(firstBatch: Long, verdict: Verdict = Verdict.None) =
    Started(s"run from $firstBatch", firstBatch, 2, 4, groups, table, verdict)

  private def submitted(id: String) = Submitted(
    Plan(id, Map(0L -> Vector(Step(Vector(Move(0, 1)), 2))), "fluid", TransferMode.Direct)
  )

  private def takenAt(batch: Long, id: String) = Sealed(
    "run",
    batch,
    Vector(SealedStep(StepId(id, 0, 0), Vector(Move(0, 1)), None)),
    Map(0L -> RoutingTable.tabulate(4, 2, 1)(Vector(1, 1, 0, 1)))
  )

  private def state(records: LogRecord*): Protocol.State =
    Protocol.start("run", groups, Protocol.Settings()).copy(history = History.of(records))

  private def planned(state: Protocol.State, batch: Long): Protocol.State = {
    val last = Protocol.Batch(batch, isOwn = true, Map.empty, Map.empty)
    state.copy(decision =
      Some(Protocol.Decision(last, Map.empty, Map.empty, Vector.empty, Vector.empty))
    )
  }

  test("Before the first run nothing is over.") {
    assert(PlansOfRun.overBefore(state(started(0))).isEmpty)
  }

  test("Plans of committed batches and those that were ended were over before a restart.") {
    val before = Vector(
      started(0),
      submitted("done"),
      takenAt(3, "done"),
      submitted("cancelled"),
      Cancelled("cancelled"),
      submitted("open"),
      submitted("replayed"),
      takenAt(4, "replayed")
    )
    val restarted = state(before :+ started(4): _*)
    assert(PlansOfRun.overBefore(restarted) == Set("done", "cancelled"))
    val ends = PlansOfRun.over(planned(restarted, 4), Some(4L), Set("done", "cancelled"))
    assert(ends == Map("replayed" -> PlanStatus.Done), "batch 4 belongs to the new run")
  }

  test("A plan that the start itself has ended, ends with this run, and with no later one.") {
    val before = Vector(started(0), submitted("a"), takenAt(3, "a"), started(3), started(3))
    val ended = started(3, Verdict.TakesBack("It failed at every start."))
    val now = state(before :+ ended: _*)
    assert(PlansOfRun.overBefore(now).isEmpty)
    assert(PlansOfRun.over(now, None) == Map("a" -> PlanStatus.Failed))
    assert(PlansOfRun.overBefore(state(before :+ ended :+ started(4): _*)) == Set("a"))
  }

  test("Files are looked into only where an end depends on the newest batch.") {
    val taken = state(started(0), submitted("a"), takenAt(3, "a"), submitted("b"))
    val unknown = (_: String) => false
    assert(PlansOfRun.asksForCommitted(planned(taken, 3), unknown))
    assert(!PlansOfRun.asksForCommitted(planned(taken, 3), Set("a")))
    assert(!PlansOfRun.asksForCommitted(planned(taken, 4), unknown))
    assert(PlansOfRun.over(planned(taken, 3), Some(2L)).isEmpty)
    assert(PlansOfRun.over(planned(taken, 4), None) == Map("a" -> PlanStatus.Done))
  }
}
