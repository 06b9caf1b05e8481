// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.errors.InvalidPlanException
import io.megaphone.plan.Tables._

class StrategiesSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import Strategy._

  private val strategies: Gen[Strategy] =
    Gen.oneOf(Gen.oneOf(AllAtOnce, Fluid, Batched(), Optimized), Gen.choose(1, 100).map(Batched(_)))

  /** A table and all its changes: a rescale, or any other table, with more workers or fewer. */
  private val changes: Gen[(RoutingTable, Step)] = for {
    table <- tables
    workers <- workerCounts
    seed <- Gen.long
    target = random(table.bins, workers, seed)
    change <- Gen.oneOf(Planner.rescale(table, workers), Step(table.movesTo(target), workers))
  } yield (table, change)

  private def tablesOf(table: RoutingTable, steps: Vector[Step]): Vector[RoutingTable] =
    steps
      .scanLeft(table)((before, step) => before.moved(step.moves, before.number + 1, step.workers))
      .tail

  private def pairsOf(table: RoutingTable, moves: Seq[Move]): Seq[(Int, Int)] =
    moves.map(move => (table.workerOf(move.bin), move.target))

  private def hasRepeats(workers: Seq[Int]): Boolean = workers.distinct.length != workers.length

  test("every strategy makes each move once and ends at the table asked for") {
    forAll(changes, strategies, minSuccessful(300)) { case ((table, change), strategy) =>
      val steps = Strategies.steps(table, change, strategy)
      assert(steps.flatMap(_.moves).sortBy(_.bin) == change.moves.sortBy(_.bin))
      val last = tablesOf(table, steps).lastOption.getOrElse(table)
      assert(
        last
          .movesTo(table.moved(change.moves, 1, change.workers))
          .isEmpty && last.workers == change.workers
      )
      assert(steps.forall(_.moves.nonEmpty) || steps.length == 1)
    }
  }

  test("the number of workers goes one way only, and is the least that holds all owners") {
    forAll(changes, strategies, minSuccessful(300)) { case ((table, change), strategy) =>
      val steps = Strategies.steps(table, change, strategy)
      val workers = table.workers +: steps.map(_.workers)
      assert(
        workers == (if (change.workers > table.workers) workers.sorted else workers.sorted.reverse)
      )
      val least = math.min(table.workers, change.workers)
      for ((after, step) <- tablesOf(table, steps).zip(steps).dropRight(1))
        assert(step.workers == math.max(least, after.binCounts.lastIndexWhere(_ > 0) + 1))
    }
  }

  test("all at once is one step, fluid one bin a step, batched k bins a step but for the last") {
    forAll(changes, Gen.choose(1, 100)) { case ((table, change), k) =>
      val moves = change.moves.length
      def sizes(strategy: Strategy) =
        Strategies.steps(table, change, strategy).map(_.moves.length).filter(_ > 0)
      assert(sizes(AllAtOnce) == Vector(moves).filter(_ > 0))
      assert(sizes(Fluid) == Vector.fill(moves)(1))
      assert(sizes(Batched(k)) == Vector.fill(moves / k)(k) ++ Vector(moves % k).filter(_ > 0))
      assert(
        sizes(Batched()).length <= 16 && (moves == 0 || sizes(Batched()).length >= math
          .min(moves, 9))
      )
    }
  }

  test(
    "optimized: no worker sends twice or receives twice in a step, and no step could move more bins"
  ) {
    forAll(changes) { case (table, change) =>
      var waiting = change.moves.toSet
      for (step <- Strategies.steps(table, change, Optimized)) {
        val pairs = pairsOf(table, step.moves)
        assert(!hasRepeats(pairs.map(_._1)) && !hasRepeats(pairs.map(_._2)))
        val edges = pairsOf(table, waiting.toSeq).distinct.groupMap(_._1)(_._2).values.toSeq
        assert(step.moves.length == MatchingSuite.maximumSize(edges))
        waiting --= step.moves
      }
    }
  }

  test(
    "optimized: a rescale takes as many steps as its busiest worker sends or receives bins"
  ) {
    forAll(tables, workerCounts, minSuccessful(500)) { (table, workersAfter) =>
      val change = Planner.rescale(table, workersAfter)
      val pairs = pairsOf(table, change.moves)
      val busiest = (pairs.groupBy(_._1).values ++ pairs.groupBy(_._2).values)
        .map(_.length)
        .maxOption
        .getOrElse(0)
      assert(Strategies.steps(table, change, Optimized).count(_.moves.nonEmpty) == busiest)
    }
  }

  test(
    "optimized: the worker with the most bins to send or to receive goes first, not last alone"
  ) {
    def sizes(owners: Seq[Int], targets: Seq[Int]) = {
      val moves = targets.zipWithIndex.map { case (target, bin) => Move(bin, target) }
      Strategies
        .steps(RoutingTable.tabulate(4, 6, 0)(owners), Step(moves.toVector, 6), Optimized)
        .map(_.moves.length)
    }
    assert(sizes(owners = Seq(0, 1, 2, 2), targets = Seq(3, 4, 3, 4)) == Seq(2, 2))
    assert(sizes(owners = Seq(0, 1, 0, 1), targets = Seq(3, 4, 5, 5)) == Seq(2, 2))
  }

  test(
    "a step begins with another worker than the step before ended with, unless all moves share one"
  ) {
    forAll(changes, minSuccessful(300)) { case (table, change) =>
      val steps = Strategies
        .steps(table, change, Optimized)
        .map(step => pairsOf(table, step.moves))
        .filter(_.nonEmpty)
      for ((before, step) <- steps.zip(steps.drop(1))) {
        def shares(pair: (Int, Int)) = pair._1 == before.last._1 || pair._2 == before.last._2
        assert(!shares(step.head) || step.forall(shares))
      }
    }
  }

  test(
    "optimized: the uniform skew of the paper, 16 workers and 4,096 bins, takes 128 steps of 8 bins"
  ) {
    val table = RoutingTable.roundRobin(4096, 16)
    val skewed = RoutingTable.tabulate(4096, 16, 1)(bin =>
      if (bin < 2048 && bin % 2 == 1) (bin + 8) % 16 else bin % 16
    )
    val change = Step(table.movesTo(skewed), 16)
    assert(change.moves.length == 1024)
    assert(Strategies.steps(table, change, Optimized).map(_.moves.length) == Vector.fill(128)(8))
    assert(Strategies.steps(table, change, Fluid).length == 1024)
  }

  test(
    "fluid: a rescale by two workers or more never has one source or target in two steps running"
  ) {
    for ((workers, workersAfter) <- Seq((8, 12), (12, 8), (16, 32), (32, 16), (2, 4), (4, 2))) {
      val table = RoutingTable.roundRobin(1024, workers)
      val moves =
        Strategies.steps(table, Planner.rescale(table, workersAfter), Fluid).flatMap(_.moves)
      for ((one, next) <- pairsOf(table, moves).zip(pairsOf(table, moves).tail))
        assert(one._1 != next._1 && one._2 != next._2, s"$workers to $workersAfter")
    }
  }

  test("fluid: where one worker must receive all, or send all, the others take turns") {
    for ((workers, workersAfter) <- Seq((8, 9), (9, 8), (25, 26), (26, 25))) {
      val table = RoutingTable.roundRobin(128, workers)
      val moves =
        Strategies.steps(table, Planner.rescale(table, workersAfter), Fluid).flatMap(_.moves)
      val turns =
        pairsOf(table, moves).map(pair => if (workersAfter > workers) pair._1 else pair._2)
      assert(
        turns.zip(turns.tail).forall { case (one, next) => one != next },
        s"$workers to $workersAfter"
      )
    }
  }

  test("a batch no larger than the pairs of workers that can move at once uses no worker twice") {
    val table = RoutingTable.roundRobin(1024, 8)
    for (step <- Strategies.steps(table, Planner.rescale(table, 16), Batched(4))) {
      val pairs = pairsOf(table, step.moves)
      assert(!hasRepeats(pairs.map(_._1)) && !hasRepeats(pairs.map(_._2)))
    }
  }

  test(
    "a change of the number of workers alone is one step without moves, and no change is no step"
  ) {
    val table = RoutingTable.roundRobin(4, 6)
    forAll(strategies) { strategy =>
      assert(
        Strategies.steps(table, Step(Vector.empty, 9), strategy) == Vector(Step(Vector.empty, 9))
      )
      assert(
        Strategies.steps(table, Step(Vector.empty, 4), strategy) == Vector(Step(Vector.empty, 4))
      )
      assert(Strategies.steps(table, Step(Vector(Move(1, 1)), 6), strategy) == Vector.empty)
    }
  }

  test("a change that cannot be is refused by name") {
    val table = RoutingTable.roundRobin(8, 3)
    def condition(change: Step) =
      intercept[InvalidPlanException](Strategies.steps(table, change, Optimized)).condition
    assert(condition(Step(Vector(Move(0, 1), Move(0, 2)), 3)) == "DUPLICATE_BIN")
    assert(condition(Step(Vector(Move(0, 1)), 2)) == "WORKER_NOT_EMPTY")
  }

  test("65,536 bins on hundreds of workers are cut into steps of one move") {
    val table = RoutingTable.roundRobin(65536, 256)
    for (
      change <- Seq(
        Planner.rescale(table, 400),
        Planner.rescale(table, 16),
        Planner.evacuate(table, Set(7))
      )
    ) assert(Strategies.steps(table, change, Fluid).length == change.moves.length)
  }
}
