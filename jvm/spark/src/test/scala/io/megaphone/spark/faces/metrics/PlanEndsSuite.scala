// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.protocol.PlanStatus
import io.megaphone.protocol.PlanStatus.{Cancelled, Done, Failed}
import io.megaphone.spark.faces.metrics.PlanEnds.Plans

/** The end of each plan is counted once, in whatever order runs and threads tell of it. */
class PlanEndsSuite extends AnyFunSuite {
  private def plans(open: String*)(over: (String, PlanStatus)*): Plans =
    Plans(open.toSet ++ over.map(_._1), over.toMap)

  private def began(over: String*): PlanEnds = {
    val ends = new PlanEnds
    ends.began("q", "first", over.toSet)
    ends
  }

  test("A plan counts when it is over, once.") {
    val ends = began("before")
    val before = "before" -> Done
    assert(ends.ends("q", "first")(plans("a", "b")(before)).isEmpty)
    assert(ends.ends("q", "first")(plans("b")(before, "a" -> Done)) == Vector(Done))
    val both = plans()(before, "a" -> Done, "b" -> Failed)
    assert(ends.ends("q", "first")(both) == Vector(Failed))
    assert(ends.ends("q", "first")(both).isEmpty)
    assert(ends.isCounted("q", "b") && !ends.isCounted("q", "c"))
  }

  test("A run that has not begun has nothing to count.") {
    val ends = began()
    assert(ends.isCounted("other", "a"))
    assert(ends.ends("other", "run")(plans()("a" -> Done)).isEmpty)
  }

  test("What a run has ended, the next one does not count.") {
    val ends = began()
    assert(ends.ends("q", "first")(plans("b")("a" -> Done)) == Vector(Done))
    ends.ended("q", "first")
    ends.began("q", "second", Set("a"))
    assert(ends.ends("q", "second")(plans()("a" -> Done, "b" -> Cancelled)) == Vector(Cancelled))
  }

  test("Two runs that find the same plan over count it once.") {
    val ends = began()
    ends.began("q", "second", Set.empty)
    val over = plans()("a" -> Done) // the second run has committed the batch, and the first sees it
    assert(ends.ends("q", "first")(over) == Vector(Done))
    ends.ended("q", "first")
    assert(ends.ends("q", "second")(over).isEmpty)
  }

  test("A run that is told of late does not make the newer one forget.") {
    val ends = began()
    ends.began("q", "second", Set("a"))
    assert(ends.ends("q", "second")(plans()("a" -> Done, "b" -> Done)) == Vector(Done))
    assert(ends.ends("q", "first")(plans()("a" -> Done)).isEmpty)
    ends.ended("q", "first")
    assert(ends.ends("q", "second")(plans()("a" -> Done, "b" -> Done)).isEmpty)
  }

  test("Plans that the plan log has trimmed are forgotten, and so are queries that have ended.") {
    val ends = began("a")
    ends.ends("q", "first")(plans()("b" -> Done))
    assert(!ends.isCounted("q", "a") && ends.isCounted("q", "b"))
    ends.ended("q", "first")
    assert(ends.ends("q", "first")(plans()("c" -> Done)).isEmpty)
  }
}
