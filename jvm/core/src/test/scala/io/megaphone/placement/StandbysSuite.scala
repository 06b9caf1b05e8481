// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class StandbysSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val stands = for {
    hosts <- Gen.choose(1, 7).flatMap(n => Gen.listOfN(n, Gen.oneOf("h1", "h2", "h3")))
    live = hosts.zipWithIndex.map { case (host, i) => s"e$i" -> host }.toMap
    workers <- Gen.listOfN(8, Gen.oneOf(live.keys.toSeq.sorted))
    known <- Gen.listOfN(8, Gen.someOf(live.keys.toSeq.sorted :+ "gone"))
    replicas <- Gen.choose(0, 3)
  } yield (live, workers.toVector, known.map(_.toSeq).toVector, replicas)

  private def membersOf(hosts: Map[String, String]) =
    hosts.toVector.sorted.map { case (id, host) => Member(id, host) }

  test("a standby is never where its worker is, on another host if there is one, and stable") {
    forAll(stands) { case (hosts, workers, known, replicas) =>
      val members = membersOf(hosts)
      val placed = Standbys.assign(workers, known, members, replicas)
      for (((standbys, worker), before) <- placed.zip(workers).zip(known)) {
        assert(standbys.size == math.min(replicas, hosts.size - 1))
        assert(standbys.distinct == standbys && !standbys.contains(worker))
        assert(standbys.forall(hosts.contains))
        val on = (worker +: standbys).map(hosts).distinct.size
        assert(on == math.min(hosts.values.toSet.size, standbys.size + 1), "two on a host")
        if (replicas > 0 && hosts.values.toSet.size > 1) {
          assert(hosts(standbys.head) != hosts(worker))
          val kept = before.find(e => hosts.get(e).exists(_ != hosts(worker)))
          assert(kept.forall(_ == standbys.head), "one that is there stays")
        }
      }
      val again = Standbys.assign(workers, placed, members, replicas)
      assert(again.map(_.toSet) == placed.map(_.toSet))
    }
  }

  test("a whole standby on its worker's host stays until one on another host is whole") {
    val members = membersOf(Map("a" -> "h1", "b" -> "h1", "c" -> "h2"))
    def placed(now: Seq[String], whole: Set[String]) =
      Standbys.assign(Vector("a"), _ => now, members, 1, (_, e) => whole(e)).head
    assert(placed(Seq("b"), Set("b")) == Seq("c", "b"))
    assert(placed(Seq("c", "b"), Set("b")) == Seq("c", "b"))
    assert(placed(Seq("c", "b"), Set("b", "c")) == Seq("c"))
    assert(placed(Seq("b"), Set.empty) == Seq("c"))
  }

  test(
    "an executor that is to be emptied gets no standby, and keeps a whole one until another is"
  ) {
    val members =
      Vector(Member("a", "h"), Member("b", "h", 1, MemberState.Draining), Member("c", "h"))
    def placed(now: Seq[String], whole: Set[String]) =
      Standbys.assign(Vector("a"), _ => now, members, 1, (_, e) => whole(e)).head
    assert(placed(Nil, Set.empty) == Seq("c"))
    assert(placed(Seq("b"), Set("b")) == Seq("c", "b"))
    assert(placed(Seq("c", "b"), Set("b", "c")) == Seq("c"))
  }

  test("an executor that had no room stands by only if there is no other, however near") {
    val members = membersOf(Map("a" -> "h1", "b" -> "h2", "c" -> "h1"))
    def placed(unfit: Set[String], whole: String*) = Standbys
      .assign(Vector("a"), _ => whole, members, 1, (_, e) => whole.contains(e), _ => unfit)
      .head
    assert(placed(Set.empty) == Seq("b"))
    assert(placed(Set("b")) == Seq("c"))
    assert(placed(Set("b"), "b") == Seq("b"), "it has room now")
    assert(placed(Set("b", "c")) == Seq("b"))
  }

  test("a standby that leaves waits for no executor that has just had no room") {
    val members =
      Vector(Member("a", "h"), Member("b", "h", 1, MemberState.Draining), Member("c", "h"))
    def placed(refuses: Set[String], whole: String*) = Standbys
      .assign(
        Vector("a"),
        _ => Seq("b"),
        members,
        1,
        (_, e) => whole.contains(e),
        _ => Set("c"),
        (_, e) => refuses(e)
      )
      .head
    assert(placed(Set.empty, "b") == Seq("c", "b"), "it is asked again")
    assert(placed(Set("c"), "b") == Seq("c"))
    assert(placed(Set("b"), "b") == Seq("c", "b"), "c has not refused")
  }

  test("standbys spread evenly") {
    val members = Vector.tabulate(4)(i => Member(s"e$i", s"h$i"))
    val workers = Vector.tabulate(12)(i => s"e${i % 4}")
    val placed = Standbys.assign(workers, _ => Nil, members, 1).flatten
    assert(placed.groupBy(identity).values.map(_.size).toSet == Set(3))
  }

  test("standbys spread by the size of the state") {
    val members = Vector("a", "b", "c").map(Member(_, "h"))
    def placed(bytes: Long*) =
      Standbys.assign(Vector("a", "a", "a"), _ => Nil, members, 1, bytesOf = w => bytes(w)).flatten
    assert(placed(0, 0, 0) == Seq("b", "c", "b"), "nothing is known")
    assert(placed(500, 100, 100) == Seq("b", "c", "c"))
  }
}
