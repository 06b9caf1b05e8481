// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.pace.Hands

/** What dynamic allocation has wanted lately. */
class RecentMostSuite extends AnyFunSuite {
  test("the greatest number of a whole span counts, and a pause begins it anew") {
    val clock = new Hands
    val wanted = new RecentMost(30000, clock)
    def after(seconds: Int, number: Int) = {
      for (_ <- 1 to seconds) { // it is looked at each second
        clock.nanoTime += 1000000000L
        wanted.add(number)
      }
      wanted.most
    }
    wanted.add(3)
    assert(after(29, 1).isEmpty, "that may be between two batches")
    assert(after(1, 1).contains(3))
    assert(after(1, 1).contains(1), "the batch is too long ago")
    clock.nanoTime += 3 * 1000000000L
    assert(wanted.most.isEmpty, "nothing is known of now")
    assert(after(30, 2).isEmpty && after(1, 1).contains(2), "nor of the pause")
  }
}
