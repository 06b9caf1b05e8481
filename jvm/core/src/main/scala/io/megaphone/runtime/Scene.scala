// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.placement.{Load, Seat}
import io.megaphone.plan.Group

/** What is known of a run when its workers are placed.
  *
  * @param groups
  *   each with the number of workers to place
  * @param binsOf
  *   how many bins a worker has
  * @param isBusy
  *   whether an announced step takes bins from a worker or to it, or one has just brought it some
  * @param isIncomplete
  *   whether a worker may have incomplete bins: nobody goes on from these by tails
  * @param reliesOn
  *   the executors where a worker's state is relied on: where the batch under way has it run, and
  *   where steps take bins of it to, those that are announced and those that the batch takes
  * @param mayTake
  *   whether relocations may take effect: only in the planning of a batch, and once for it
  * @param knowsLoads
  *   whether the loads of all workers are known
  */
private[runtime] final case class Scene(
    batch: Long,
    groups: Vector[(Group, Int)],
    loadOf: Seat => Load,
    binsOf: Seat => Int,
    isBusy: Seat => Boolean,
    isIncomplete: Seat => Boolean,
    reliesOn: Seat => Set[String],
    mayTake: Boolean,
    knowsLoads: () => Boolean
) {
  private val byId = groups.iterator.map { case (group, _) => group.id -> group }.toMap
  lazy val isKnown: Boolean = knowsLoads()
  lazy val seats: Map[Seat, Load] = (for {
    (group, workers) <- groups
    worker <- 0 until workers
    seat = Seat(group.id, worker)
  } yield seat -> loadOf(seat)).toMap
  def groupOf(seat: Seat): Group = byId(seat.group)
}
