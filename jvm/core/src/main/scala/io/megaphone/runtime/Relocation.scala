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
  def isDone: Boolean = end.contains(Relocation.Done)
  def cancelled: Relocation = copy(end = Some(Relocation.Cancelled))

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
