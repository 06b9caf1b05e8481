// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{StoreId, WorkerId}
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
    assert(reported.newestOn(join, 0) == Seq("b"))
    reported.forget(Vector("b"), 10)
    assert(reported.newestOn(join, 0) == Seq("a"))
  }

  test("a worker makes progress while one of its stores does, whatever other groups do") {
    val reported = new ReportedStandbys
    val (left, right) = (join.stores.head, join.stores.last)
    reported.standsBy("a", Vector(standing(left, 0, 1), standing(other.stores.head, 0, 1)), 3)
    reported.standsBy("a", Vector(standing(left, 0, 1), standing(other.stores.head, 0, 2)), 4)
    assert(reported.progressedAt(join, 0, "a") == 3 && reported.progressedAt(other, 0, "a") == 4)
    reported.standsBy("a", Vector(standing(left, 0, 1), standing(right, 0, 1)), 5)
    assert(reported.progressedAt(join, 0, "a") == 5 && reported.progressedAt(join, 0, "b") == -1)
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
