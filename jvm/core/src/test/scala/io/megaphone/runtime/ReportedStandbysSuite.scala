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

  test("most of a worker is where more than half of its bins are, and keep up") {
    val reported = new ReportedStandbys
    val (left, right) = (join.stores.head, join.stores.last)
    reported.standsBy("a", Vector(standing(left, 0, 3), standing(right, 0, 3)), 5)
    reported.standsBy("b", Vector(standing(left, 0, 4), standing(right, 0, 1)), 5)
    reported.standsBy("c", Vector(standing(left, 0, 4)), 5)
    def most(among: String*) = reported.mostOn(join, 0, among.toSet, bins = 4)
    assert(most("a", "b", "c") == Some("a") && most("b", "c") == Some("b") && most("c").isEmpty)
    assert(reported.mostOn(join, 1, Set("a", "b", "c"), bins = 4).isEmpty)
    val behind = standing(right, 0, 3, version = 4)
    reported.standsBy("a", Vector(standing(left, 0, 3), behind), 4L + Footer.PreviousMax)
    assert(most("a") == Some("a"))
    reported.standsBy("a", Vector(standing(left, 0, 3), behind), 5L + Footer.PreviousMax)
    assert(most("a", "b") == Some("b"))
  }

  test("a standby is whole as long as a task would read tails only, and stuck long after that") {
    val reported = new ReportedStandbys
    val (left, right) = (join.stores.head, join.stores.last)
    val executors = Seq("a", "b", "c")
    def whole = executors.filter(reported.isWhole(join, 0, _))
    def stand(batch: Long) = {
      reported.standsBy("a", Vector(standing(left, 0, 4, 100), standing(right, 0, 4, 101)), batch)
      reported.standsBy("b", Vector(standing(left, 0, 4, batch), standing(right, 0, 3, 1)), batch)
      reported.asked(join, executors.map(0 -> _).toSet, batch + 1)
      assert(reported.newestOn(join, 0, executors.toSet) == whole)
      (whole, executors.filter(reported.isStuck(join, 0, _, batch + 1)))
    }
    assert(stand(100 + Footer.PreviousMax) == (Seq("a"), Nil))
    assert(stand(101 + Footer.PreviousMax) == (Nil, Nil))
    assert(stand(149 + Footer.PreviousMax) == (Nil, Nil))
    assert(stand(150 + Footer.PreviousMax) == (Nil, Seq("b", "c")), "they got no bin")
    assert(stand(151 + Footer.PreviousMax) == (Nil, executors))
    reported.asked(join, Set(0 -> "b"), 300)
    assert(executors.filter(reported.isStuck(join, 0, _, 300)) == Seq("b"))
    reported.asked(join, executors.map(0 -> _).toSet, 301)
    assert(executors.filter(reported.isStuck(join, 0, _, 301)) == Seq("b"), "they are asked anew")
  }

  test("a standby that is lost again and again gets on only if it has more than ever before") {
    val reported = new ReportedStandbys
    val store = other.stores.head
    def at(batch: Long, bins: Int*) = {
      reported.asked(other, Set(0 -> "a"), batch)
      reported.standsBy("a", bins.map(standing(store, 0, _)).toVector, batch)
      reported.progressedAt("a")
    }
    assert(at(1, 2) == 1 && at(2) == 1 && at(3, 2) == 1 && at(4, 3) == 4)
    assert(at(5, 4) == 5)
    assert(at(6) == 5 && at(7, 1) == 7, "it was whole in between")
    assert(!reported.isStuck(other, 0, "a", 56) && reported.isStuck(other, 0, "a", 57))
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
    assert(reported.refusals(Seat(0, 0)) == Map("a" -> 7L))
    reported.forget(Vector.empty, 1008)
    assert(reported.refusals(Seat(0, 0)).isEmpty && reported.refusedAt(Seat(0, 0), "a") == -1)
  }
}
