// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import scala.annotation.tailrec
import scala.collection.immutable.TreeMap

import io.megaphone.checkpoint.planlog.LogRecord.Sealed
import io.megaphone.plan.RoutingTable

/** The valid seals, by batch.
  *
  * @param since
  *   the first batch whose table is known: those of batches before it were trimmed
  */
final case class Seals(since: Long, byBatch: TreeMap[Long, Sealed]) {

  /** The seal for a batch. */
  def at(batch: Long): Option[Sealed] = byBatch.get(batch)

  /** The table that the newest seal up to a batch gives a group, if there is one. */
  @tailrec
  def tableAt(group: Long, batch: Long): Option[RoutingTable] =
    byBatch.rangeTo(batch).lastOption match {
      case Some((at, seal)) =>
        seal.tables.get(group) match {
          case None => tableAt(group, at - 1)
          case table => table
        }
      case None => None
    }

  /** The bins of a group that moved at batches after this one. Costs as much as those seals. */
  def movedAfter(group: Long, batch: Long): Set[Int] = (for {
    seal <- byBatch.rangeFrom(batch + 1).valuesIterator
    step <- seal.steps if step.step.group == group
    move <- step.moves
  } yield move.bin).toSet

  private[planlog] def +(seal: Sealed): Seals = copy(byBatch = byBatch.updated(seal.batch, seal))

  private[planlog] def without(isVoid: Long => Boolean): Seals =
    copy(byBatch = byBatch.filterNot(s => isVoid(s._1)))

  /** Without the seals that only batches before this one need. */
  private[planlog] def trimmed(batch: Long): Seals = {
    val inForce = byBatch.rangeTo(batch).lastOption
    Seals(math.max(since, batch), byBatch.rangeFrom(batch + 1) ++ inForce)
  }
}

object Seals {
  val Empty: Seals = Seals(since = -1, TreeMap.empty)
}
