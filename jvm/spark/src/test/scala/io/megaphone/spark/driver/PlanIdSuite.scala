// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.History
import io.megaphone.checkpoint.planlog.LogRecord.Submitted
import io.megaphone.plan.Plan
import io.megaphone.plan.TransferMode.Direct

/** The ids of plans. */
final class PlanIdSuite extends AnyFunSuite {
  test("An id that a known plan has is drawn again.") {
    val known = Seq("a", "b").map(id => Submitted(Plan(id, Map.empty, "fluid", Direct)))
    val drawn = Iterator("a", "a", "b", "c")
    assert(Plans.newId(History.of(known), drawn) == "c")
  }

  test("Ids differ from plan to plan.") {
    val ids = Seq.fill(100)(Plans.newId(History.Empty))
    assert(ids.distinct == ids && ids.forall(_.length == 8))
  }
}
