// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.apache.spark.SparkContext
import org.apache.spark.sql.megaphone.Allocation

/** Tells dynamic allocation which executors have state, and which have none any more. It may miss
  * what it is told, so it is told again every so often.
  *
  * Threads: one at a time.
  */
private final class Holds(context: SparkContext) {
  private lazy val rdd = Allocation.newRdd(context)
  private var told = Map.empty[String, Boolean] // whether each was said to be held, as said last
  private var calls = 0L

  /** From now on, these executors are held, and no others.
    *
    * @param live
    *   all that there are; of the others nothing is told any more
    */
  def hold(executors: Set[String], live: Set[String]): Unit = {
    calls += 1
    told = told.filter { case (executor, _) => live(executor) }
    val wished = (told.keySet ++ executors).iterator.map(e => e -> executors(e)).toMap
    val isAgain = calls % Holds.AgainEvery == 0
    val due = if (isAgain) wished else wished.filterNot { case (e, on) => told.get(e).contains(on) }
    // One that has just registered may not be known well enough yet.
    if (due.nonEmpty) {
      val heard = Allocation.hold(context, rdd, due)
      told ++= due.filter { case (executor, _) => heard(executor) }
    }
  }
}

private object Holds {
  val AgainEvery = 20L
}
