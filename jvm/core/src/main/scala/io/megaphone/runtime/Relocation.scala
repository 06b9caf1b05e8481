// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.placement.Seat

/** A worker's way to another executor. Its bins stay its own, and no table changes.
  *
  * @param id
  *   its number in the run, from 1
  * @param from
  *   the executor that the worker was placed on
  * @param to
  *   the executor that it is to be placed on, once a standby there has all of its state
  * @param since
  *   the batch that was planned last when it began
  * @param taken
  *   the batch that placed the worker on `to`; None while its standby is made
  * @param end
  *   how it ended; None while it is under way
  */
final case class Relocation(
    id: Long,
    seat: Seat,
    from: String,
    to: String,
    why: Relocation.Why,
    since: Long,
    taken: Option[Long] = None,
    end: Option[Relocation.End] = None
) {
  def isOpen: Boolean = end.isEmpty
  def isMaking: Boolean = isOpen && taken.isEmpty

  /** Why it failed; None if it did not. */
  def reason: Option[String] = end.collect { case failed: Relocation.Failed => failed.reason }
  def status: String = end.fold(if (isMaking) "making" else "taken")(_.name)
}

object Relocation {

  /** Why a worker is to go elsewhere. */
  sealed abstract class Why(val name: String)

  /** Its executor is to be emptied. */
  case object Drain extends Why("drain")

  /** The load is spread. */
  case object Spread extends Why("spread")

  /** A user names the executor. */
  case object Asked extends Why("place")

  sealed abstract class End(val name: String)

  /** The worker has run where it was to go. */
  case object Done extends End("done")

  /** It stays where it was. */
  case object Cancelled extends End("cancelled")
  final case class Failed(reason: String) extends End("failed")
}

/** The relocations of a run, with those that ended last.
  *
  * Threads: one at a time. `all` and `open` may be called by any thread at any time.
  *
  * @param endedMax
  *   how many that have ended are kept
  */
private[runtime] final class Relocations(endedMax: Int = 1000) {
  private var lastId = 0L
  private var untold = Vector.empty[Relocation] // that have ended
  @volatile private var known = Vector.empty[Relocation]

  /** In the order in which they began. */
  def all: Vector[Relocation] = known
  def open: Vector[Relocation] = known.filter(_.isOpen)

  /** Where each worker is to go that is under way. */
  def targets: Map[Seat, String] = open.iterator.map(r => r.seat -> r.to).toMap

  /** Begins some, and gives them their ids. Those of the same workers that are under way are
    * cancelled. Returns them.
    */
  def begin(some: Vector[Relocation]): Vector[Relocation] = {
    val seats = some.iterator.map(_.seat).toSet
    if (seats.nonEmpty)
      change(r => if (seats(r.seat)) r.copy(end = Some(Relocation.Cancelled)) else r)
    val begun = some.map { r => lastId += 1; r.copy(id = lastId) }
    known ++= begun
    begun
  }

  /** Changes those that are under way. */
  def change(of: Relocation => Relocation): Unit = {
    val changed = known.map { before =>
      val now = if (before.isOpen) of(before) else before
      if (before.isOpen && !now.isOpen) untold :+= now
      now
    }
    val tooMany = changed.count(!_.isOpen) - endedMax
    val dropped = changed.iterator.filter(!_.isOpen).take(tooMany).map(_.id).toSet
    known = changed.filterNot(r => dropped(r.id))
  }

  /** Those that have ended since this was asked last. */
  def takeEnded(): Vector[Relocation] = {
    val ended = untold
    untold = Vector.empty
    ended
  }
}
