// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.StoreId
import io.megaphone.plan.{Move, SealedStep, Step, StepId, TransferMode}
import io.megaphone.state.ReplicaKey

/** Targets that have no room for what is to move to them. */
class NoRoomSuite extends AnyFunSuite with ProtocolRun {
  import Protocol._

  private val noRoomAtOne = "Executor b has no room for the bins that are to move to worker 1: full"

  test(
    "no room: a step whose patience is over goes on without the refused moves, and says why"
  ) {
    val run = newRun.submit("p", TransferMode.Prepared, Step(Vector(Move(0, 1), Move(1, 0)), 2))
    run.plan(1)
    run.refused(0, 0, 1).ready(0, 1, 0, version = 4)
    assert((2L to 4L).forall(n => sealedIn(run.plan(n)).isEmpty))
    val step = run.plan(5)
    assert(
      Vector(0, 1).map(step.after(0).workerOf) == Vector(0, 0) && run.state.history.open.isEmpty
    )
    assert(
      run.state.history.taken("p") == Vector(
        5L -> SealedStep(StepId("p", 0, 0), Vector(Move(1, 0)), Some(noRoomAtOne))
      )
    )
  }

  test(
    "no room: a plan waits once for a target, and a later step that finds room there is taken whole"
  ) {
    val moveThree = Step(Vector(Move(4, 1)), 2)
    val run = newRun.submit("p", TransferMode.Prepared, moveOne, moveTwo, moveThree)
    run.plan(1)
    run.refused(0, 0, 1)
    assert((2L to 5L).map(n => sealedIn(run.plan(n)).size) == Vector(0, 0, 0, 1))
    run.refused(1, 0, 1).refused(2, 0, 1)
    assert(sealedIn(run.plan(6)) == Vector("p.0.1"), "its patience is not over, and need not be")
    run.ready(2, 0, 1, version = 6)
    val last = run.plan(7)
    assert(
      sealedIn(last) == Vector("p.0.2") && Vector(0, 2, 4)
        .map(last.after(0).workerOf) == Vector(0, 0, 1) && run.state.history.open.isEmpty
    )
  }

  test(
    "no room: a worker that was to go and keeps bins ends the plan with the reason, soon or late"
  ) {
    for (
      steps <- Seq(
        Vector(Step(Vector(Move(1, 0), Move(3, 0), Move(5, 0), Move(7, 0)), 1)),
        Vector(1, 3, 5, 7).map(b => Step(Vector(Move(b, 0)), if (b < 7) 2 else 1))
      )
    ) {
      val run = newRun.submit("p", TransferMode.Prepared, steps: _*)
      run.plan(1)
      run.refused(0, 1, 0)
      val taken = (2L to 20L).flatMap(n => sealedIn(run.plan(n)))
      assert(
        taken == steps.indices.init
          .map(i => s"p.0.$i") && run.state.history.tableAt(0, 20).workers == 2
      )
      val reason = run.state.history.end("p").flatMap(_.reason).get
      assert(
        reason.startsWith("Workers that were to go have bins left") && reason.endsWith(
          "to worker 0: full"
        ) && run.state.history.open.isEmpty
      )
    }
  }

  test("no room: what has come to be, on this executor or another, is forgotten") {
    val step = StepId("p", 0, 0)
    val key = ReplicaKey.forStep(StoreId(0, "default").in("r"), 0, 1, step)
    def reported(state: ReplicaState) = ReplicaReported(key, step, state)
    for (
      (relief, batch) <- Seq(ExecutorLost("b") -> 5L, reported(ReplicaState.Ready(0, "b")) -> 2L)
    ) {
      val run = newRun.submit("p", TransferMode.Prepared, moveOne)
      run.plan(1)
      run.feed(reported(ReplicaState.Refused("full", "b"))).feed(relief)
      assert((2L to 5L).filter(n => sealedIn(run.plan(n)).nonEmpty) == Seq(batch))
    }
  }
}
