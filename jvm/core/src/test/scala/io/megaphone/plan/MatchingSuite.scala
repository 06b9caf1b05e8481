// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class MatchingSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import Matching.Unmatched

  private def fromNothing(edges: Array[Array[Int]], rights: Int) =
    new Matching(edges, rights, Array.fill(edges.length)(Unmatched)).maximum()

  private val graphs: Gen[(Array[Array[Int]], Int)] = for {
    lefts <- Gen.choose(0, 40)
    rights <- Gen.choose(1, 40)
    degree <- Gen.choose(0, 4)
    edges <- Gen.listOfN(lefts, Gen.listOfN(degree, Gen.choose(0, rights - 1)))
  } yield (edges.map(_.distinct.toArray).toArray, rights)

  test("a matching uses edges of the graph, each vertex once, and no matching is larger") {
    forAll(graphs, minSuccessful(500)) { case (edges, rights) =>
      val matching = fromNothing(edges, rights)
      val matched = matching.indices.filter(matching(_) != Unmatched)
      assert(matched.forall(left => edges(left).contains(matching(left))))
      assert(matched.map(matching(_)).distinct.length == matched.length)
      assert(matched.length == MatchingSuite.maximumSize(edges.toSeq.map(_.toSeq)))
    }
  }

  test("a vertex that the first matching matches stays matched") {
    forAll(graphs, minSuccessful(500)) { case (edges, rights) =>
      val taken = new Array[Boolean](rights)
      val first = edges.map(_.find(right => !taken(right)).fold(Unmatched) { right =>
        taken(right) = true; right
      })
      val matching = new Matching(edges, rights, first).maximum()
      assert(first.indices.forall(left => first(left) == Unmatched || matching(left) != Unmatched))
      assert(first.filter(_ != Unmatched).forall(matching.contains(_)))
      assert(matching.count(_ != Unmatched) == MatchingSuite.maximumSize(edges.toSeq.map(_.toSeq)))
    }
  }

  test("a path as long as there are workers needs no deep stack") {
    /* Left i reaches i and i + 1; all but the last hold i + 1, and 0 is free: one path through all
     * of them. */
    val lefts = 65536
    val edges =
      Array.tabulate(lefts)(left => if (left < lefts - 1) Array(left + 1, left) else Array(left))
    val first = Array.tabulate(lefts)(left => if (left < lefts - 1) left + 1 else Unmatched)
    assert(new Matching(edges, lefts, first).maximum().toSeq == (0 until lefts))
  }
}

object MatchingSuite {

  /** The size of a maximum matching, found one augmenting path at a time: slow, and plain to see
    * right.
    */
  def maximumSize(edges: Seq[Seq[Int]]): Int = {
    val owner = scala.collection.mutable.Map.empty[Int, Int]
    def augment(left: Int, seen: scala.collection.mutable.Set[Int]): Boolean =
      edges(left).exists { right =>
        seen.add(right) && (owner.get(right).forall(augment(_, seen)) && {
          owner(right) = left; true
        })
      }
    edges.indices.count(augment(_, scala.collection.mutable.Set.empty))
  }
}
