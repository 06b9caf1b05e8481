// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

/** What workers are placed by.
  *
  * @param members
  *   the executors of the application
  * @param seats
  *   the workers to place, each with its load
  * @param now
  *   where each is placed, as far as it is
  * @param bound
  *   where those are bound to that are on their way
  * @param stateOn
  *   executors that have all of a worker's state, all equally new
  * @param mostOn
  *   the executor that has most of a worker's state, if one does
  * @param unfit
  *   executors that could not take a worker, with the batch in which they last could not. They get
  *   it only if they have its state, or if there is no other: then the one that was asked the
  *   longest ago. They never get it to spread the load
  * @param elsewhere
  *   the load of other queries, by executor
  * @param tolerance
  *   how far from its part the load of an executor may be before workers are taken from it or
  *   brought to it, as a fraction of the part; None if workers that have a place are to keep it
  */
final case class Request(
    members: Vector[Member],
    seats: Map[Seat, Load],
    now: Map[Seat, String],
    bound: Map[Seat, String] = Map.empty,
    stateOn: Seat => Seq[String] = _ => Nil,
    mostOn: Seat => Option[String] = _ => None,
    unfit: Seat => Map[String, Long] = _ => Map.empty,
    elsewhere: Map[String, Load] = Map.empty,
    tolerance: Option[Double] = None
)

/** Where workers should run.
  *
  * @param places
  *   the executor of each in the batch that is planned; empty if there are no executors
  * @param targets
  *   where each should get to, once its state is there: its place, if it is to stay
  */
final case class Wanted(places: Map[Seat, String], targets: Map[Seat, String])

/** Where workers should run: sticky, by what they weigh, over all groups and queries.
  *
  *   1. A worker keeps its place as long as the executor runs tasks, and its way if it is bound for
  *      one that may get workers.
  *   1. Workers without a place get one at once, the heaviest first: where their state is, or most
  *      of it, if it is anywhere; else where the least is.
  *   1. Workers of executors that are to be emptied get a target in the same way.
  *   1. If the load is to be spread, a worker of the fullest executor gets as its target the one
  *      that it fills least: the heaviest worker that takes neither beyond its part, else the one
  *      that helps most. Each exchange lowers the larger of the two, so it ends.
  *
  * An executor's part of the load is that of its cores. If several are equally good, the first one
  * in the order of ids is taken, so equal requests get equal answers. Queries are answered one
  * after the other; since each only ever evens the same load out, they do not chase each other.
  */
object Placement {
  def apply(request: Request): Wanted = new Placing(request).wanted
}

private final class Placing(request: Request) {
  import request.{members, now, seats, tolerance}

  private val open = Member.open(members).sortBy(_.id)(Member.order)
  private val isOpen = open.map(_.id).toSet
  private val runs = members.iterator.filter(_.state != MemberState.Leaving).map(_.id).toSet
  private val fills = new Fills(open, Load.sum(seats.values), request.elsewhere)

  def wanted: Wanted =
    if (open.isEmpty) Wanted(Map.empty, Map.empty)
    else {
      val kept = now.filter { case (seat, executor) =>
        seats.contains(seat) && (runs(executor) || isOpen(executor))
      }
      val bound = request.bound.filter { case (seat, to) => kept.contains(seat) && isOpen(to) }
      val staying = kept.filter { case (_, executor) => isOpen(executor) } ++ bound
      staying.foreach { case (seat, executor) => fills.add(executor, seats(seat)) }
      val homes = chosen(seats.keySet.toSet -- kept.keySet)
      val places = kept ++ homes
      val settled = staying ++ homes ++ chosen(places.keySet -- staying.keySet -- homes.keySet)
      val targets = tolerance.fold(settled) { of =>
        def mayMove(seat: Seat) = !bound.contains(seat) && !homes.contains(seat)
        Exchanges(fills, settled, mayMove, !request.unfit(_).contains(_), of, seats)
      }
      Wanted(places, targets)
    }

  private def chosen(of: Set[Seat]): Map[Seat, String] = {
    val heaviestFirst = of.toVector.sortBy(seat => (-fills.weightOf(seats(seat)), seat))
    heaviestFirst.foldLeft(Map.empty[Seat, String]) { (made, seat) =>
      val withState = request.stateOn(seat).toSet
      val unfit = request.unfit(seat)
      val refusedAt = open.map(m => m -> unfit.getOrElse(m.id, -1L))
      val longestAgo = refusedAt.iterator.map(_._2).min // -1 if one never did
      def fit = refusedAt.collect { case (m, `longestAgo`) => m }
      val among = open.filter(m => withState(m.id)) match {
        case Vector() =>
          val withMost = request.mostOn(seat).filterNot(unfit.contains)
          withMost.flatMap(id => open.find(_.id == id)).fold(fit)(Vector(_))
        case some => some
      }
      val executor = fills.emptiest(among, seats(seat))
      fills.add(executor, seats(seat))
      made.updated(seat, executor)
    }
  }
}
