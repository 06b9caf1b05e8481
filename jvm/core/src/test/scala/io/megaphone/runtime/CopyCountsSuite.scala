// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.StoreId
import io.megaphone.pace.{CopyRate, Hands, Throttle}
import io.megaphone.plan.StepId
import io.megaphone.state.ReplicaKey

/** What is copied for a replica counts while it is paid for. */
class CopyCountsSuite extends AnyFunSuite {
  private val MiB = 1L << 20
  private val Second = 1000000000L
  private val key =
    ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, StepId("plan", 0, 0))
  private val clock = new Hands
  private val throttle = new Throttle(clock)
  throttle.keep(Map("run" -> CopyRate(MiB, MiB)))

  test("a large piece counts bit by bit, and is hurried with as soon as it is late") {
    val counts = new CopyCounts(throttle)
    val told = mutable.Buffer.empty[Long]
    clock.onWait = () => { told += counts.told.map(_._2).sum; () }
    counts.counting(key, hurries = () => clock.nanoTime >= 4 * Second)(32 * MiB)
    assert(counts.told == Vector(key -> 32 * MiB) && clock.nanoTime == 4 * Second)
    assert(told.size > 8 && told == told.sorted.distinct && told.head < MiB)
  }
}
