// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.record

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** A record's header word keeps its four parts apart, up to the largest value of each. */
class RecordSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import Record._

  private def upTo(max: Int): Gen[Int] =
    Gen.frequency(1 -> Gen.const(0), 1 -> Gen.const(max), 4 -> Gen.choose(0, max))

  test("a header returns its family, kind and lengths, and is never zero") {
    forAll(upTo(FamilyMax), Gen.oneOf(Put, Remove), upTo(KeyBytesMax), upTo(ValueBytesMax)) {
      (f, k, keys, values) =>
        val word = header(f, k, keys, values)
        assert(
          (family(word), kind(word), keyBytes(word), valueBytes(word)) == ((f, k, keys, values))
        )
        assert(word != 0)
    }
  }

  test("the top bit of a family says whether it is ordered") {
    forAll(upTo(FamilyMax))(f => assert(isOrdered(f) == (header(f, Put, 0, 0) < 0)))
    assert(!isOrdered(511) && isOrdered(512) && isOrdered(FamilyMax))
  }

  test("a record takes whole words, and the largest record fits in an array") {
    forAll(upTo(KeyBytesMax), upTo(ValueBytesMax)) { (keys, values) =>
      val bytes = size(header(0, Put, keys, values))
      assert(bytes % 8 == 0 && bytes >= 8 + keys + values && bytes < 8 + keys + values + 16)
    }
    assert(
      (0 to 17).map(padded) == Vector(0) ++ Vector.fill(8)(8) ++ Vector.fill(8)(16) ++ Vector(24)
    )
  }
}
