// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.InvalidPlanException

class PlanSuite extends AnyFunSuite {

  private def condition(body: => Any): String = intercept[InvalidPlanException](body).condition

  test("a plan counts its steps and moves over all groups") {
    val plan = Plan(
      "p",
      Map(
        0L -> Vector(Step(Vector(Move(0, 1), Move(2, 1)), 2), Step(Vector(Move(4, 1)), 2)),
        3L -> Vector(Step(Vector.empty, 3))
      ),
      "fluid",
      TransferMode.Prepared
    )
    assert(plan.stepsCount == 3 && plan.movesCount == 3)
    assert(Move(3, 1).toString == "bin 3 to worker 1")
  }

  test("strategies are read in any case, and print as they are read") {
    val names = Map(
      "all-at-once" -> Strategy.AllAtOnce,
      "fluid" -> Strategy.Fluid,
      "batched" -> Strategy.Batched(),
      "batched(8)" -> Strategy.Batched(8),
      "optimized" -> Strategy.Optimized
    )
    for ((name, strategy) <- names) {
      assert(Strategy.parse(name) == strategy && strategy.toString == name)
      assert(Strategy.parse(s" ${name.toUpperCase} ") == strategy)
    }
    assert(Strategy.parse("batched( 65536 )") == Strategy.Batched(65536))
  }

  test("a strategy that does not exist is told with those that do") {
    for (text <- Seq("", "paced", "batched8", "batched(8", "fluid(2)"))
      assert(condition(Strategy.parse(text)) == "UNKNOWN_STRATEGY")
    assert(
      intercept[InvalidPlanException](Strategy.parse("Sudden")).getMessage ==
        "There is no strategy 'Sudden', only all-at-once, fluid, batched, " +
        "batched(<bins per step>), optimized; choose one of these."
    )
  }

  test("a batch size that cannot be is refused by name, read or made") {
    for (size <- Seq("0", "-1", "65537", "eight", "", "99999999999", "1.5"))
      assert(condition(Strategy.parse(s"batched($size)")) == "INVALID_BATCH_SIZE")
    assert(condition(Strategy.Batched(0)) == "INVALID_BATCH_SIZE")
  }

  test("batched without a size moves a sixteenth of the bins a step, and one at least") {
    val sizes = Seq(0 -> 1, 1 -> 1, 16 -> 1, 17 -> 2, 1024 -> 64)
    for ((moves, size) <- sizes) assert(Strategy.Batched().binsPerStep(moves) == size)
    assert(Strategy.Batched(8).binsPerStep(1024) == 8)
  }

  test("transfer modes are read in any case, and print as they are read") {
    for (mode <- TransferMode.values)
      assert(TransferMode.parse(s" ${mode.toString.toUpperCase}") == mode)
    val error = intercept[InvalidPlanException](TransferMode.parse("later"))
    assert(error.condition == "UNKNOWN_MODE")
    assert(
      error.getMessage ==
        "There is no transfer mode 'later', only direct, prepared, replicated, on-demand; choose " +
        "one of these."
    )
  }

  test("every error is one sentence: what was wrong, what is allowed; what to do") {
    import InvalidPlanException._
    val errors = Seq(
      new BinsNotPowerOfTwo(3, 65536),
      new BinsDiffer(8, 16),
      new InvalidWorkers(0, 65536),
      new UnknownBin(9, 8),
      new UnknownWorker(2, 2),
      new DuplicateBin(1),
      new WorkerNotEmpty(2, 5, 2),
      new NoWorkersLeft(2),
      new EmptyPlan,
      new UnknownStrategy("x", Seq("y")),
      new InvalidBatchSize("0", 65536),
      new UnknownMode("x", Seq("y")),
      new DamagedTable("it has 3 bytes where 12 are the least")
    )
    for (error <- errors) {
      assert(error.getMessage.matches("[A-Z][^.\\n]*; [a-z][^.\\n]*\\."), error.condition)
      assert(error.condition.matches("[A-Z_]+"))
    }
    assert(errors.map(_.condition).distinct.length == errors.length)
  }
}
