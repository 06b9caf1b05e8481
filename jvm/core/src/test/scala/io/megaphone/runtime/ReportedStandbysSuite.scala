// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{Footer, StoreId, WorkerId}
import io.megaphone.placement.Seat
import io.megaphone.plan.{Group, Operator}

/** What executors report of standbys, and what it says of each worker. */
class ReportedStandbysSuite extends AnyFunSuite {
  private val join = Group(Vector(Operator(0, "join", Vector("left", "right"))), 2)
  private val other = Group(Vector(Operator(1, "stateStoreSave", Vector("default"))), 2)

  private def standing(store: StoreId, worker: Int, bins: Int, version: Long = 5) =
    Standing(WorkerId(store.in("run"), worker), version, isWhole = bins == 4, bins)

  test("a worker is whole where all of its stores are, at the version of the oldest") {
    val reported = new ReportedStandbys
    val (left, right) = (join.stores.head, join.stores.last)
    reported.standsBy("a", Vector(standing(left, 0, 4), standing(right, 0, 3)), 9)
    assert(reported.versionOn(join, 0, "a").isEmpty)
    assert(reported.shareOn(join, 0, "a", bins = 4) == 7.0 / 8)
    assert(reported.shareOn(join, 1, "a", bins = 4) == 0 && reported.shareOn(join, 0, "b", 0) == 1)
    reported.standsBy("a", Vector(standing(left, 0, 4), standing(right, 0, 4, version = 4)), 10)
    reported.standsBy("b", Vector(standing(left, 0, 4, 6), standing(right, 0, 4, 6)), 10)
    assert(reported.versionOn(join, 0, "a").contains(4L))
    assert(reported.newestOn(join, 0, Set("a", "b")) == Seq("b"))
    assert(reported.newestOn(join, 0, Set("a", "c")) == Seq("a"))
    reported.forget(Vector("b"), 10)
    assert(reported.newestOn(join, 0, Set("a", "b")) == Seq("a"))
  }

  test("a standby is whole as long as a task would read tails only, and stuck long after that") {
    val reported = new ReportedStandbys
    val (left, right) = (join.stores.head, join.stores.last)
    def stand(batch: Long) = {
      reported.standsBy("a", Vector(standing(left, 0, 4, 100), standing(right, 0, 4, 101)), batch)
      reported.standsBy("b", Vector(standing(left, 0, 4, 100), standing(right, 0, 3, 101)), batch)
      val executors = Seq("a", "b", "c")
      assert(reported.newestOn(join, 0, executors.toSet) == whole(executors))
      (whole(executors), executors.filter(reported.isStuck(join, 0, _)))
    }
    def whole(executors: Seq[String]) = executors.filter(reported.isWhole(join, 0, _))
    assert(stand(100 + Footer.PreviousMax) == (Seq("a"), Nil))
    assert(stand(101 + Footer.PreviousMax) == (Nil, Nil))
    assert(stand(150 + Footer.PreviousMax) == (Nil, Nil))
    assert(stand(151 + Footer.PreviousMax) == (Nil, Seq("a")))
  }

  test("an executor makes progress while it has more bins of any worker than ever before") {
    val reported = new ReportedStandbys
    val (left, right) = (join.stores.head, join.stores.last)
    def at(batch: Long, bins: (StoreId, Int)*) = {
      val now = bins.map { case (store, n) => standing(store, 0, n) }.toVector
      reported.standsBy("a", now, batch)
      reported.progressedAt("a")
    }
    assert(at(3, left -> 2, other.stores.head -> 1) == 3)
    assert(at(4, left -> 2, other.stores.head -> 1) == 3)
    assert(at(5, left -> 2, other.stores.head -> 2) == 5)
    assert(at(6, left -> 1, other.stores.head -> 2) == 5, "it begins again")
    assert(at(7, left -> 2, other.stores.head -> 2) == 5)
    assert(at(8, left -> 2, right -> 1, other.stores.head -> 2) == 8)
    assert(reported.progressedAt("b") == -1)
    reported.forget(Vector("a"), 9)
    assert(reported.progressedAt("a") == -1)
  }

  test("an executor that had no room is unfit for a thousand batches") {
    val reported = new ReportedStandbys
    reported.refuses("a", Seat(0, 0), 7)
    reported.forget(Vector.empty, 1007)
    assert(reported.unfitFor(Seat(0, 0)) == Set("a") && reported.refusedAt(Seat(0, 0), "a") == 7)
    reported.forget(Vector.empty, 1008)
    assert(reported.unfitFor(Seat(0, 0)).isEmpty && reported.refusedAt(Seat(0, 0), "a") == -1)
  }
}
