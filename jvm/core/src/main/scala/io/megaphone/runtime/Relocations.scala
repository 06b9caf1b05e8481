// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.placement.Seat

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
      change(r => if (seats(r.seat)) r.cancelled else r)
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
