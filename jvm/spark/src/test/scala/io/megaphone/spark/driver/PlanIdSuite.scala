// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.scalatest.funsuite.AnyFunSuite

/** The ids of plans. */
final class PlanIdSuite extends AnyFunSuite {
  test("An id that a known plan has is drawn again.") {
    val drawn = Iterator("a", "a", "b", "c")
    assert(Plans.newId(drawn)(Set("a", "b")) == "c")
  }

  test("Ids differ from plan to plan.") {
    val ids = Seq.fill(100)(Plans.newId()(_ => false))
    assert(ids.distinct == ids && ids.forall(_.length == 8))
  }
}
