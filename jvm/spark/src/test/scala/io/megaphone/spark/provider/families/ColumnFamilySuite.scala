// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.log.record.Record

/** The numbers that families have in a log. */
final class ColumnFamilySuite extends AnyFunSuite {

  test("No family has the number of another one; one that no number is left for is refused.") {
    val places = 0 until Record.OrderedFamilyMin
    assert(places.flatMap(ColumnFamily.numbersOf).distinct.size == 2 * places.size)
    val refused =
      intercept[UnsupportedOperationException](ColumnFamily.numbersOf(Record.OrderedFamilyMin))
    assert(refused.getMessage.contains("511 column families over its life"))
  }
}
