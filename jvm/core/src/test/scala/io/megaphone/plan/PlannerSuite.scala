// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.errors.InvalidPlanException
import io.megaphone.plan.Tables._

class PlannerSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def condition(body: => Any): String = intercept[InvalidPlanException](body).condition

  private def after(table: RoutingTable, change: Step): RoutingTable =
    table.moved(change.moves, table.number + 1, change.workers)

  private def isBalanced(table: RoutingTable): Boolean =
    table.binCounts.max - table.binCounts.min <= 1

  /** The fewest moves to balance, by trying for every worker both shares it may get: `best(k)` is
    * the smallest surplus when k of the workers seen so far get the larger share.
    */
  private def fewestMoves(table: RoutingTable, workers: Int): Int = {
    val (share, larger) = (table.bins / workers, table.bins % workers)
    val counts = table.binCounts.padTo(workers, 0)
    val (staying, leaving) = counts.splitAt(workers)
    val none = Int.MaxValue / 2
    var best = 0 +: Vector.fill(larger)(none)
    staying.foreach { count =>
      def withShare(share: Int) = math.max(0, count - share)
      best = best.indices.toVector.map { k =>
        math.min(
          best(k) + withShare(share),
          if (k > 0) best(k - 1) + withShare(share + 1) else none
        )
      }
    }
    best(larger) + leaving.sum
  }

  test("25 workers to 30 over 128 bins moves 20 bins") {
    val table = RoutingTable.roundRobin(128, 25)
    val change = Planner.rescale(table, 30)
    assert(change.moves.length == 20 && change.workers == 30 && isBalanced(after(table, change)))
    assert(change.moves.forall(_.target >= 25))
  }

  test("rescaling balances with the fewest moves, from any table to any number of workers") {
    forAll(tables, workerCounts, minSuccessful(1000)) { (table, workersAfter) =>
      val change = Planner.rescale(table, workersAfter)
      assert(change.workers == workersAfter && isBalanced(after(table, change)))
      assert(change.moves.length == fewestMoves(table, workersAfter))
      assert(change.moves.forall(move => table.workerOf(move.bin) != move.target))
    }
  }

  test("rescaling agrees with every balanced table there is, where all can be tried") {
    def allOwners(bins: Int, workers: Int): Iterator[Seq[Int]] =
      if (bins == 0) Iterator(Nil)
      else allOwners(bins - 1, workers).flatMap(rest => (0 until workers).iterator.map(_ +: rest))

    for {
      workers <- 1 to 3
      workersAfter <- 1 to 4
      owners <- allOwners(4, workers)
    } {
      val table = RoutingTable.tabulate(4, workers, 0)(owners)
      val fewest = allOwners(4, workersAfter)
        .filter(other => isBalanced(RoutingTable.tabulate(4, workersAfter, 0)(other)))
        .map(other => other.indices.count(bin => other(bin) != owners(bin)))
        .min
      assert(Planner.rescale(table, workersAfter).moves.length == fewest)
    }
  }

  test("rescaling a balanced table to its own number of workers moves nothing") {
    forAll(binCounts, workerCounts) { (bins, workers) =>
      assert(
        Planner.rescale(RoutingTable.roundRobin(bins, workers), workers) == Step(
          Vector.empty,
          workers
        )
      )
    }
  }

  test("rescaling is deterministic and does not depend on the table's number") {
    forAll(tables, workerCounts) { (table, workersAfter) =>
      val same = table.moved(Nil, table.number + 9, table.workers)
      assert(Planner.rescale(table, workersAfter) == Planner.rescale(same, workersAfter))
    }
  }

  test(
    "rescaling lets few pairs of workers exchange bins: fewer than there are senders and receivers"
  ) {
    forAll(tables, workerCounts) { (table, workersAfter) =>
      val moves = Planner.rescale(table, workersAfter).moves
      val pairs = moves.map(move => (table.workerOf(move.bin), move.target)).distinct
      assert(
        pairs.isEmpty || pairs.length < pairs.map(_._1).distinct.length + pairs
          .map(_._2)
          .distinct
          .length
      )
    }
  }

  test("rescaling to more workers than bins leaves some without, and one worker takes all") {
    val table = RoutingTable.roundRobin(4, 2)
    assert(after(table, Planner.rescale(table, 6)).binCounts.sorted.toSeq == Seq(0, 0, 1, 1, 1, 1))
    assert(after(table, Planner.rescale(table, 1)).binCounts.toSeq == Seq(4))
    assert(condition(Planner.rescale(table, 0)) == "INVALID_WORKERS")
    assert(condition(Planner.rescale(table, 65537)) == "INVALID_WORKERS")
  }

  test("a table cannot grow beyond a worker for each bin; one that began with more may keep them") {
    val few = RoutingTable.roundRobin(bins = 4, workers = 2)
    Planner.checkGrowth(few, 4)
    val refused = intercept[InvalidPlanException.MoreWorkersThanBins](Planner.checkGrowth(few, 5))
    assert(refused.condition == "INVALID_WORKERS" && (refused.workers, refused.bins) == ((5, 4)))
    val many = RoutingTable.roundRobin(bins = 4, workers = 9)
    Planner.checkGrowth(many, 9)
    intercept[InvalidPlanException.MoreWorkersThanBins](Planner.checkGrowth(many, 10))
  }

  private val evacuations: Gen[(RoutingTable, Set[Int])] = for {
    table <- tables.suchThat(_.workers > 1)
    from <- Gen.choose(1, table.workers - 1).flatMap(Gen.pick(_, 0 until table.workers))
  } yield (table, from.toSet)

  test("evacuating moves exactly the bins of the workers named, and levels the others") {
    forAll(evacuations) { case (table, from) =>
      val change = Planner.evacuate(table, from)
      assert(
        change.moves.map(_.bin) == (0 until table.bins).filter(bin => from(table.workerOf(bin)))
      )
      assert(change.moves.forall(move => !from(move.target)) && change.workers == table.workers)

      val counts = after(table, change).binCounts
      assert(from.forall(counts(_) == 0))
      val receivers = change.moves.map(_.target).distinct
      val others = counts.indices.filterNot(from)
      assert(
        receivers.forall(receiver => others.forall(other => counts(receiver) <= counts(other) + 1))
      )
    }
  }

  test("evacuating an unknown worker, none or all of them is refused by name") {
    val table = RoutingTable.roundRobin(8, 3)
    assert(condition(Planner.evacuate(table, Set(0, 3))) == "UNKNOWN_WORKER")
    assert(condition(Planner.evacuate(table, Set(-1))) == "UNKNOWN_WORKER")
    assert(condition(Planner.evacuate(table, Set.empty)) == "EMPTY_PLAN")
    assert(condition(Planner.evacuate(table, Set(0, 1, 2))) == "NO_WORKERS_LEFT")
  }

  test("moves of the user are kept in order, but for those to the bin's owner") {
    val table = RoutingTable.roundRobin(8, 3)
    assert(
      Planner.move(table, Seq(Move(5, 0), Move(1, 1), Move(2, 1))) == Step(
        Vector(Move(5, 0), Move(2, 1)),
        3
      )
    )
    assert(Planner.move(table, Seq(Move(1, 1))) == Step(Vector.empty, 3))
  }

  test("moves of the user that cannot be are refused by name, even where they would be dropped") {
    val table = RoutingTable.roundRobin(8, 3)
    assert(condition(Planner.move(table, Seq.empty)) == "EMPTY_PLAN")
    assert(condition(Planner.move(table, Seq(Move(8, 0)))) == "UNKNOWN_BIN")
    assert(condition(Planner.move(table, Seq(Move(0, 3)))) == "UNKNOWN_WORKER")
    assert(condition(Planner.move(table, Seq(Move(0, 0), Move(0, 0)))) == "DUPLICATE_BIN")
  }
}
