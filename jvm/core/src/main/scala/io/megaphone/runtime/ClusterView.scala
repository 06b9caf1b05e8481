// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.ExecutorAddress

/** The executors that run workers, as the driver sees them when it plans a batch.
  *
  * @param leaving
  *   the ids of those that get no new tasks: they still have state and blocks
  */
final case class ClusterView(
    executors: Vector[ExecutorAddress],
    leaving: Set[String] = Set.empty
) {
  private val byId = executors.iterator.map(e => e.id -> e).toMap

  def ids: Vector[String] = executors.map(_.id)

  /** The executors that workers may be placed on: those that stay, or all if none does. */
  def hosts: Vector[String] = {
    val staying = ids.filterNot(leaving)
    if (staying.isEmpty) ids else staying
  }
  def get(id: String): Option[ExecutorAddress] = byId.get(id)

  /** The address at which an executor answers others; None if none is known. */
  def peer(id: String): Option[ExecutorAddress] = get(id).filter(_.isKnown)
}

object ClusterView {
  val Empty: ClusterView = ClusterView(Vector.empty)
}
