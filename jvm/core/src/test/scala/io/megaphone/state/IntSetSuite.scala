// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class IntSetSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  /** Any, those of one bin, whose low bits are the same, and 0, which stands for a free place. */
  private val values = Gen.oneOf(
    Gen.choose(Int.MinValue, Int.MaxValue),
    Gen.choose(0, 100).map(_ << 20 | 7),
    Gen.const(0)
  )

  test("it has what was added, and nothing else") {
    forAll(Gen.listOf(values), Gen.listOf(values), minSuccessful(300)) { (added, others) =>
      val set = new IntSet
      var known = Set.empty[Int]
      for (value <- added) {
        assert(set.add(value) == !known(value))
        known += value
        assert(set.size == known.size)
      }
      for (value <- added ++ others) assert(set.contains(value) == known(value))
      assert(set.iterator.toSeq.sorted == known.toSeq.sorted)
      for (least <- others.take(3); max <- Seq(0, 2, 1000))
        assert(set.from(least, max).toSeq == known.toSeq.sorted.filter(_ >= least).take(max))
    }
  }
}
