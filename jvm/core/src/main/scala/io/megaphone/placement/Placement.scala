// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

/** Where workers should run: sticky, and spread evenly. */
object Placement {

  /** The executor of each of `workers` workers: where it is, if that executor lives; else the one
    * with the fewest workers, the first by name. Empty where there are no executors.
    */
  def assign(workers: Int, current: Int => Option[String], executors: Seq[String]): Vector[String] =
    if (executors.isEmpty) Vector.empty
    else {
      val kept = Vector.tabulate(workers)(w => current(w).filter(executors.contains))
      val counts = scala.collection.mutable.Map.from(executors.map(_ -> 0))
      kept.flatten.foreach(e => counts(e) += 1)
      kept.map(_.getOrElse {
        val least = executors.minBy(e => (counts(e), e)); counts(least) += 1; least
      })
    }
}
