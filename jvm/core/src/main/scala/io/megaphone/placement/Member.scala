// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

/** An executor, as placement sees it.
  *
  * @param cores
  *   how many tasks it runs at once, from 1
  */
final case class Member(
    id: String,
    host: String,
    cores: Int = 1,
    state: MemberState = MemberState.Active
)

object Member {

  /** The order in which executors are named, and in which ties are broken: `2` before `10`. */
  val order: Ordering[String] = Ordering.by(id => (id.length, id))

  /** Those that may get workers: the active ones. If there is none, those that still run tasks, and
    * if there is none of these either, all.
    */
  def open(members: Vector[Member]): Vector[Member] =
    MemberState.All.iterator
      .map(state => members.filter(_.state == state))
      .find(_.nonEmpty)
      .getOrElse(Vector.empty)
}

sealed abstract class MemberState(val name: String)

object MemberState {

  /** Runs tasks, and may get workers. */
  case object Active extends MemberState("active")

  /** Is to be emptied. It runs tasks until its workers are elsewhere. */
  case object Draining extends MemberState("draining")

  /** Gets no tasks any more. It still has state and blocks. */
  case object Leaving extends MemberState("leaving")

  /** From the one that workers are placed on first. */
  val All: Vector[MemberState] = Vector(Active, Draining, Leaving)
}
