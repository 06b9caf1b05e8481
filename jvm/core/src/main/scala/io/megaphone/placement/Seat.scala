// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

/** A worker of a group of operators. They are placed as one, because all operators of a group run
  * in the same tasks.
  */
final case class Seat(group: Long, worker: Int)

object Seat {
  implicit val order: Ordering[Seat] = Ordering.by(seat => (seat.group, seat.worker))
}
