// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.pace.Hands

/** What dynamic allocation has wanted lately. */
class RecentMostSuite extends AnyFunSuite {
  test("the greatest number of a whole span counts, and a pause begins it anew") {
    val clock = new Hands
    val wanted = new RecentMost(30000, clock)
    def after(seconds: Long, number: Int) = {
      clock.nanoTime += seconds * 1000000000L
      wanted.add(number)
      wanted.most
    }
    assert(wanted.most.isEmpty)
    assert(after(0, 3).isEmpty && after(15, 1).isEmpty, "that may be between two batches")
    assert(after(15, 1).contains(3))
    assert(after(1, 1).contains(1), "the batch is too long ago")
    assert(after(31, 2).isEmpty && after(20, 1).isEmpty)
    assert(after(10, 1).contains(2))
    clock.nanoTime += 31 * 1000000000L
    assert(wanted.most.isEmpty, "nothing is known of now")
  }
}
