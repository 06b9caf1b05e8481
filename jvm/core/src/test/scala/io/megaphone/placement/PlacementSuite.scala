// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class PlacementSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val executors = Gen.choose(1, 6).map(n => Vector.tabulate(n)(i => s"e$i"))
  private val scenes = for {
    live <- executors
    workers <- Gen.choose(0, 20)
    known <- Gen.listOfN(workers, Gen.option(Gen.oneOf(live ++ Vector("gone", "lost"))))
  } yield (live, workers, known)

  test("a worker whose executor lives stays there, and each other gets a live one") {
    forAll(scenes) { case (live, workers, known) =>
      val placed = Placement.assign(workers, known(_), live)
      assert(placed.size == workers && placed.forall(live.contains))
      for ((before, now) <- known.zip(placed); executor <- before if live.contains(executor))
        assert(now == executor)
    }
  }

  test("workers with no place go where the fewest are") {
    forAll(executors, Gen.choose(0, 20)) { (live, workers) =>
      val counts = Placement.assign(workers, _ => None, live).groupBy(identity).map(_._2.size)
      assert(workers == 0 || counts.max - (if (counts.size < live.size) 0 else counts.min) <= 1)
    }
    assert(
      Placement.assign(3, w => Option.when(w < 2)("a"), Vector("a", "b")) == Seq("a", "a", "b")
    )
  }

  test("the order in which executors are listed does not matter; with none there is no place") {
    forAll(scenes) { case (live, workers, known) =>
      assert(
        Placement.assign(workers, known(_), live) ==
          Placement.assign(workers, known(_), live.reverse)
      )
    }
    assert(Placement.assign(3, _ => Some("gone"), Vector.empty).isEmpty)
  }
}
