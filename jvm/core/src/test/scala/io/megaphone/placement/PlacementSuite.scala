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

  test("a worker whose executor is gone goes where its state is, and these do not crowd") {
    val stateOn = Vector(Seq("a", "b"), Seq("a", "b"), Seq("gone"))
    val placed = Placement.assign(3, _ => None, Seq("a", "b", "c"), stateOn)
    assert(placed == Seq("a", "b", "c"))
    assert(Placement.assign(1, _ => Some("c"), Seq("b", "c"), _ => Seq("b")) == Seq("c"))
  }

  private val stands = for {
    hosts <- Gen.choose(1, 7).flatMap(n => Gen.listOfN(n, Gen.oneOf("h1", "h2", "h3")))
    live = hosts.zipWithIndex.map { case (host, i) => s"e$i" -> host }.toMap
    workers <- Gen.listOfN(8, Gen.oneOf(live.keys.toSeq.sorted))
    known <- Gen.listOfN(8, Gen.someOf(live.keys.toSeq.sorted :+ "gone"))
    replicas <- Gen.choose(0, 3)
  } yield (live, workers.toVector, known.map(_.toSeq).toVector, replicas)

  test("a standby is never where its worker is, on another host if there is one, and stable") {
    forAll(stands) { case (hosts, workers, known, replicas) =>
      val placed = Placement.standbys(workers, known, hosts, replicas)
      for (((standbys, worker), before) <- placed.zip(workers).zip(known)) {
        assert(standbys.size == math.min(replicas, hosts.size - 1))
        assert(standbys.distinct == standbys && !standbys.contains(worker))
        assert(standbys.forall(hosts.contains))
        if (replicas > 0 && hosts.values.toSet.size > 1) {
          assert(hosts(standbys.head) != hosts(worker))
          val kept = before.find(e => hosts.get(e).exists(_ != hosts(worker)))
          assert(kept.forall(_ == standbys.head), "one that is there stays")
        }
      }
      val again = Placement.standbys(workers, placed, hosts, replicas)
      assert(again.map(_.toSet) == placed.map(_.toSet))
    }
  }

  test("a whole standby on its worker's host stays until one on another host is whole") {
    val hosts = Map("a" -> "h1", "b" -> "h1", "c" -> "h2")
    def placed(now: Seq[String], whole: Set[String]) =
      Placement.standbys(Vector("a"), _ => now, hosts, 1, (_, e) => whole(e)).head
    assert(placed(Seq("b"), Set("b")) == Seq("c", "b"))
    assert(placed(Seq("c", "b"), Set("b")) == Seq("c", "b"))
    assert(placed(Seq("c", "b"), Set("b", "c")) == Seq("c"))
    assert(placed(Seq("b"), Set.empty) == Seq("c"))
  }

  test("standbys spread evenly") {
    val hosts = Vector.tabulate(4)(i => s"e$i" -> s"h$i").toMap
    val workers = Vector.tabulate(12)(i => s"e${i % 4}")
    val placed = Placement.standbys(workers, _ => Nil, hosts, 1).flatten
    assert(placed.groupBy(identity).values.map(_.size).toSet == Set(3))
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
