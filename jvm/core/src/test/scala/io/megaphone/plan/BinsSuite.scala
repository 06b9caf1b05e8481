// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.errors.InvalidPlanException

class BinsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  test("a bin is the hash modulo the number of bins, for negative hashes too") {
    forAll(Tables.binCounts) { bins =>
      forAll { (hash: Int) => assert(Bins.of(hash, bins) == Math.floorMod(hash, bins)) }
    }
    assert(Bins.of(Int.MinValue, 1024) == 0 && Bins.of(-1, 1024) == 1023 && Bins.of(-7, 1) == 0)
  }

  test("any power of two from 1 to 65,536 is a number of bins, and nothing else is") {
    val allowed = (0 to 16).map(1 << _).toSet
    val tried = (-3 to 1100) ++ allowed ++ Seq(65535, 65537, 131072, Int.MaxValue, Int.MinValue)
    tried.foreach { bins =>
      if (allowed(bins)) assert(Bins.check(bins) == bins)
      else
        assert(
          intercept[InvalidPlanException](Bins.check(bins)).condition == "BINS_NOT_POWER_OF_TWO"
        )
    }
  }

  test("a wrong number of bins is told with the allowed ones and one that works") {
    def told(bins: Int) =
      intercept[InvalidPlanException.BinsNotPowerOfTwo](Bins.check(bins)).getMessage
    assert(
      told(1000) == "The number of bins is 1000, but it must be a power of two from 1 to 65536; " +
        "use 512, for example."
    )
    assert(
      told(0).endsWith("use 1, for example.") && told(100000).endsWith("use 65536, for example.")
    )
  }
}
