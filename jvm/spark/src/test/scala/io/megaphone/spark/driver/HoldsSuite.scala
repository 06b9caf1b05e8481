// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.apache.spark.sql.megaphone.BlockUpdates

import io.megaphone.spark.query.PluginSession

/** What dynamic allocation is told of executors with state. */
final class HoldsSuite extends PluginSession {
  private lazy val updates = new BlockUpdates(spark.sparkContext)
  private def only = "driver" // in local mode there is one

  private final class Held {
    var live: Set[String] = Set(only, "new")
    private val holds = new Holds(spark.sparkContext)

    /** What is told if these executors have state. */
    def told(executors: String*): Seq[(String, Boolean)] = {
      val before = updates.ofRdds.size
      holds.hold(executors.toSet, live)
      updates.ofRdds.drop(before)
    }
  }

  test("An executor is held, let go, and both are told again every so often while it lives.") {
    val held = new Held
    import held._
    assert(told().isEmpty)
    assert(told(only) == Seq(only -> true))
    val again = Seq.fill(2 * Holds.AgainEvery.toInt)(told(only))
    assert(again.filter(_.nonEmpty) == Seq.fill(2)(Seq(only -> true)))
    assert(told() == Seq(only -> false))
    val gone = Seq.fill(2 * Holds.AgainEvery.toInt)(told())
    assert(gone.filter(_.nonEmpty) == Seq.fill(2)(Seq(only -> false)))
    live = Set.empty
    assert(Seq.fill(2 * Holds.AgainEvery.toInt)(told()).forall(_.isEmpty))
  }

  test("An executor that Spark does not know for a moment is let go once it does again.") {
    val held = new Held
    import held._
    updates.know("new")
    try {
      assert(told("new") == Seq("new" -> true))
      updates.forget("new")
      assert(told().isEmpty)
      updates.know("new")
      assert(told() == Seq("new" -> false) && told().isEmpty)
    } finally updates.forget("new")
  }

  test("An executor whose blocks Spark does not know yet is held once it does.") {
    val held = new Held
    import held._
    assert(told("new").isEmpty && told("new").isEmpty)
    updates.know("new")
    try assert(told("new") == Seq("new" -> true) && told("new").isEmpty)
    finally updates.forget("new")
  }
}
