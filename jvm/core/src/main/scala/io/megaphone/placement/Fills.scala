// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

import scala.collection.mutable

/** How full executors are: the weight of what is on each, over its part by cores. 1 is just its
  * part.
  *
  * @param open
  *   those that may get workers, in order
  * @param own
  *   all loads that are to be placed
  * @param elsewhere
  *   what others have on each executor
  */
private[placement] final class Fills(
    open: Vector[Member],
    own: Load,
    elsewhere: Map[String, Load]
) {
  private val others = elsewhere.filter { case (id, _) => open.exists(_.id == id) }
  private val weights = new Weights(own + Load.sum(others.values))
  private val cores = open.iterator.map(_.cores.toDouble).sum
  private val partOf = open.map(m => m.id -> m.cores / cores).toMap
  private val weightOn =
    mutable.Map.from(open.map(m => m.id -> others.get(m.id).fold(0.0)(weights(_))))

  def weightOf(load: Load): Double = weights(load)

  def add(executor: String, load: Load): Unit = weightOn(executor) += weights(load)
  def remove(executor: String, load: Load): Unit = weightOn(executor) -= weights(load)

  /** How full an executor is, or would be with another weight. */
  def of(executor: String, more: Double = 0): Double =
    (weightOn(executor) + more) / partOf(executor)

  /** The one of some executors that is the least full once it has a load, the first in order. */
  def emptiest(among: Vector[Member], load: Load): String = {
    val weight = weights(load)
    among.minBy(m => Fills.rounded(of(m.id, weight))).id // the first of equals
  }

  /** All executors but one. */
  def others(executor: String): Vector[Member] = open.filterNot(_.id == executor)

  /** All executors, from the fullest, and in order. */
  def fullestFirst: Vector[String] = open.map(_.id).sortBy(id => -Fills.rounded(of(id)))
}

private[placement] object Fills {

  /** Sums of fractions differ in their last digits by the order in which they were added. */
  def rounded(fill: Double): Double = math.rint(fill * Digits) / Digits
  private val Digits = 1e9
}
