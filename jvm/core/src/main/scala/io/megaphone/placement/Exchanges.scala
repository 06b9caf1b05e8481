// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

import scala.annotation.tailrec
import scala.collection.mutable

/** Spreads the load: takes workers from full executors to empty ones until that helps no more. */
private[placement] object Exchanges {

  /** Returns where each worker should get to.
    *
    * @param targets
    *   where each would get to otherwise; `fills` has them
    * @param mayMove
    *   whether a worker may get another target
    * @param mayTake
    *   whether a worker may get an executor as its target
    * @param tolerance
    *   how far from 1 fills may be
    */
  def apply(
      fills: Fills,
      targets: Map[Seat, String],
      mayMove: Seat => Boolean,
      mayTake: (Seat, String) => Boolean,
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
      val all = for {
        seat <- on.get(from).iterator.flatten
        among = fills.others(from).filter(m => mayTake(seat, m.id))
        if among.nonEmpty
      } yield {
        val to = fills.emptiest(among, loadOf(seat))
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
