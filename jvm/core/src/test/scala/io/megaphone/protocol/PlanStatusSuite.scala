// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.{History, LogRecord}
import io.megaphone.checkpoint.planlog.LogRecord._
import io.megaphone.plan.{
  Group, Move, Operator, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode
}

/** How far a plan of two steps has come, by what the plan log and the driver know. */
class PlanStatusSuite extends AnyFunSuite {
  private val groups = Vector(Group(Vector(Operator(0, "aggregate", Vector("default"))), 2))
  private val table = Map(0L -> RoutingTable.roundRobin(8, 2))
  private val steps = Vector(Step(Vector(Move(0, 1)), 2), Step(Vector(Move(2, 1)), 2))
  private val plan = Plan("p", Map(0L -> steps), "fluid", TransferMode.Prepared)

  private def sealing(batch: Long, index: Int, noRoom: Option[String] = None) =
    Sealed("r", batch, Vector(SealedStep(StepId("p", 0, index), steps(index).moves, noRoom)), table)

  private def status(
      records: Vector[LogRecord],
      planned: Long = 0,
      committed: Option[Long] = None,
      isAnnounced: Boolean = false
  ): PlanStatus = {
    val history = History.of(Started("r", 0, 2, 8, groups, table) +: Submitted(plan) +: records)
    val batch = Protocol.Batch(planned, isOwn = true, Map.empty, Map.empty)
    val announced =
      Vector(Announced(StepId("p", 0, 0), steps(0), plan.mode, planned, Map.empty))
        .filter(_ => isAnnounced)
    val state = Protocol
      .start("r", groups, Protocol.Settings())
      .copy(
        history = history,
        announced = announced,
        decision = Some(Protocol.Decision(batch, table, table, Vector.empty, announced))
      )
    PlanStatus.of(state, plan, committed)
  }
  private val both = Vector(sealing(3, 0), sealing(7, 1))

  test("submitted, then preparing, then running, then done") {
    assert(status(Vector.empty) == PlanStatus.Submitted)
    assert(status(Vector.empty, isAnnounced = true) == PlanStatus.Preparing)
    assert(status(both.take(1), planned = 3) == PlanStatus.Running)
    assert(status(both, planned = 7) == PlanStatus.Running, "the last step's batch still runs")
    assert(status(both, planned = 7, committed = Some(7)) == PlanStatus.Done)
    assert(status(both, planned = 8) == PlanStatus.Done)
  }

  test("a plan that a user has ended is cancelled, before its first step and after it") {
    assert(status(Vector(Cancelled("p"))) == PlanStatus.Cancelled)
    assert(status(both.take(1) :+ Cancelled("p"), planned = 9) == PlanStatus.Cancelled)
  }

  test("a plan that could not go on, or left moves out, has failed") {
    assert(status(Vector(Cancelled("p", Some("no room")))) == PlanStatus.Failed)
    val partly = Vector(sealing(3, 0), sealing(7, 1, noRoom = Some("no room")))
    assert(status(partly, planned = 8) == PlanStatus.Failed)
    assert(status(partly, planned = 7) == PlanStatus.Running, "it is not over yet")
  }

  test("what is committed is asked for only where it decides") {
    def unasked = fail("the commit log was looked at")
    val state = Protocol.start("r", groups, Protocol.Settings())
    assert(PlanStatus.of(state, plan, unasked) == PlanStatus.Submitted)
  }
}
