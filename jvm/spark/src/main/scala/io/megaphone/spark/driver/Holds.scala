// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.apache.spark.SparkContext
import org.apache.spark.sql.megaphone.Allocation

/** Tells dynamic allocation which executors have state. It may miss what it is told, so it is told
  * again every so often.
  *
  * Threads: one at a time.
  */
private final class Holds(context: SparkContext) {
  private lazy val rdd = Allocation.newRdd(context)
  private var held = Set.empty[String]
  private var calls = 0L

  /** From now on, these executors are held, and no others. */
  def hold(executors: Set[String]): Unit = {
    calls += 1
    val isAgain = calls % Holds.AgainEvery == 0
    val on = if (isAgain) executors else executors -- held
    val off = held -- executors
    if (on.nonEmpty || off.nonEmpty) {
      val changes = on.map(_ -> true).toMap ++ off.map(_ -> false)
      // One that has just registered may not be known well enough yet.
      val told = Allocation.hold(context, rdd, changes)
      held = (held.intersect(executors) -- on) ++ on.intersect(told)
    }
  }
}

private object Holds {
  val AgainEvery = 20L
}
