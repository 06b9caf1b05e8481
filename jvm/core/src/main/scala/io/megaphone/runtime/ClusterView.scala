// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.ExecutorAddress
import io.megaphone.placement.{Load, Member, MemberState}

/** The executors that run workers, as the driver sees them when it plans a batch.
  *
  * @param leaving
  *   the ids of those that get no new tasks: they still have state and blocks
  * @param draining
  *   the ids of those that are to be emptied: they run tasks until their workers are elsewhere
  * @param cores
  *   how many tasks each runs at once, where it is known
  * @param elsewhere
  *   the load of other queries, by executor
  */
final case class ClusterView(
    executors: Vector[ExecutorAddress],
    leaving: Set[String] = Set.empty,
    draining: Set[String] = Set.empty,
    cores: Map[String, Int] = Map.empty,
    elsewhere: Map[String, Load] = Map.empty
) {
  private val byId = executors.iterator.map(e => e.id -> e).toMap

  /** The executors, as placement sees them. */
  val members: Vector[Member] = executors.map { e =>
    val state =
      if (leaving(e.id)) MemberState.Leaving
      else if (draining(e.id)) MemberState.Draining
      else MemberState.Active
    Member(e.id, e.host, cores.getOrElse(e.id, 1), state)
  }

  /** The executors that may get workers. */
  val open: Set[String] = Member.open(members).iterator.map(_.id).toSet

  def ids: Vector[String] = executors.map(_.id)
  def get(id: String): Option[ExecutorAddress] = byId.get(id)

  /** Whether tasks may run on an executor. */
  def runs(id: String): Boolean = byId.contains(id) && (!leaving(id) || open(id))

  /** The address at which an executor answers others; None if none is known. */
  def peer(id: String): Option[ExecutorAddress] = get(id).filter(_.isKnown)
}

object ClusterView {
  val Empty: ClusterView = ClusterView(Vector.empty)
}
