// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

import scala.annotation.tailrec
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

/** Spreads the load: takes workers from full executors to empty ones until that helps no more. */
private[placement] object Exchanges {

  /** Returns where each worker should get to.
    *
    * @param targets
    *   where each would get to otherwise; `fills` has them
    * @param mayMove
    *   whether a worker may get another target
    * @param tolerance
    *   how far from 1 fills may be
    */
  def apply(
      fills: Fills,
      targets: Map[Seat, String],
      mayMove: Seat => Boolean,
      tolerance: Double,
      loadOf: Seat => Load
  ): Map[Seat, String] = {
    val weightOf = targets.keysIterator.map(seat => seat -> fills.weightOf(loadOf(seat))).toMap
    val on = mutable.Map.empty[String, mutable.TreeSet[Seat]]
    targets.foreach { case (seat, executor) =>
      if (mayMove(seat)) on.getOrElseUpdate(executor, mutable.TreeSet.empty[Seat]) += seat
    }

    /** The worker to take from an executor, and where it goes: where it fills least. None if that
      * would help with none.
      */
    def best(from: String): Option[Exchange] = {
      val full = Fills.rounded(fills.of(from))
      val all = on.get(from).iterator.flatten.map { seat =>
        val to = fills.emptiest(fills.others(from), loadOf(seat))
        val left = Fills.rounded(fills.of(from, -weightOf(seat)))
        Exchange(seat, from, to, left, Fills.rounded(fills.of(to, weightOf(seat))))
      }
      val helpful = all.filter(e => math.max(e.left, e.got) < full).toVector
      helpful
        .filter(e => e.left >= 1 && e.got <= 1)
        .maxByOption(e => weightOf(e.seat))
        .orElse(helpful.minByOption(e => math.max(e.left, e.got)))
    }

    def next: Option[Exchange] = {
      val order = fills.fullestFirst
      val isEven = fills.of(order.head) <= 1 + tolerance && fills.of(order.last) >= 1 - tolerance
      if (isEven || order.size == 1) None else order.iterator.flatMap(best).nextOption()
    }

    @tailrec
    def go(targets: Map[Seat, String], left: Int): Map[Seat, String] = next match {
      case Some(exchange) if left > 0 =>
        import exchange.{from, seat, to}
        fills.remove(from, loadOf(seat))
        fills.add(to, loadOf(seat))
        on(from) -= seat
        on.getOrElseUpdate(to, mutable.TreeSet.empty[Seat]) += seat
        go(targets.updated(seat, to), left - 1)
      case _ => targets
    }
    go(targets, PerSeat * targets.size)
  }

  /** @param left
    *   how full the one executor would be without the worker
    * @param got
    *   how full the other one would be with it
    */
  private final case class Exchange(
      seat: Seat,
      from: String,
      to: String,
      left: Double,
      got: Double
  )

  /** Exchanges for each worker at most, against rounding that never ends. */
  private val PerSeat = 4
}
