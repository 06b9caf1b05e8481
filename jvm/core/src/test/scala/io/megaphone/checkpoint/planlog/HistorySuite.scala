// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.plan.{
  Group, Move, Operator, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode
}

class HistorySuite extends AnyFunSuite {
  import LogRecord._

  private val first = RoutingTable.roundRobin(8, 2)
  private val groups = Vector(Group(Vector(Operator(0, "aggregate", Vector("default"))), 2))
  private val plan = Plan(
    "p",
    Map(0L -> Vector(Step(Vector(Move(0, 1)), 2), Step(Vector(Move(2, 1)), 2))),
    "fluid",
    TransferMode.Direct
  )
  private def started(run: String, batch: Long) =
    Started(run, batch, 1, 8, groups, Map(0L -> first))
  private def sealing(batch: Long, index: Int, table: RoutingTable) =
    Sealed(
      "a",
      batch,
      Vector(SealedStep(StepId("p", 0, index), plan.steps(0)(index).moves)),
      Map(0L -> table)
    )
  private val second = first.moved(plan.steps(0)(0).moves, 2, 2)
  private val third = second.moved(plan.steps(0)(1).moves, 3, 2)
  private val records =
    Vector(started("a", 0), Submitted(plan), sealing(3, 0, second), sealing(6, 1, third))
  private val done = History.of(records)

  test("R_v is the table of the last seal at v or before, else the first") {
    assert(
      (0L to 7L).map(done.tableAt(0, _)) == Vector(
        first,
        first,
        first,
        second,
        second,
        second,
        third,
        third
      )
    )
    assertThrows[NoSuchElementException](done.tableAt(4, 0))
  }

  test("a plan is open until all of its steps are sealed") {
    assert(
      done.open.isEmpty && done.sealedSteps("p") == Map(
        StepId("p", 0, 0) -> 3L,
        StepId("p", 0, 1) -> 6L
      )
    )
    assert(History.of(records.take(3)).open == Vector(plan))
    assert(History.of(records.take(3) :+ Cancelled("p")).open.isEmpty)
  }

  test("H8: a start record voids the seals of later batches, and their steps are open again") {
    val back = done + started("b", 5)
    assert(back.tableAt(0, 9) == second && back.sealAt(6).isEmpty)
    assert(back.open == Vector(plan) && back.sealedSteps("p").keySet == Set(StepId("p", 0, 0)))
    assert(back.nextNumber == 5)
  }

  test("H8: the seal of the first batch itself stays, for that batch may have run") {
    val again = done + started("b", 6)
    assert(again.tableAt(0, 6) == third && again.open.isEmpty)
  }

  test("the bins that moved lately are those of valid seals") {
    assert(done.seals.movedAfter(0, 2) == Set(0, 2) && done.seals.movedAfter(0, 3) == Set(2))
    assert((done + started("b", 4)).seals.movedAfter(0, 2) == Set(0))
  }
}
