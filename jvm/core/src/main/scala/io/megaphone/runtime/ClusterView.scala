// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.ExecutorAddress

/** The executors that may run workers, as the driver sees them when it plans a batch. */
final case class ClusterView(executors: Vector[ExecutorAddress]) {
  private val byId = executors.iterator.map(e => e.id -> e).toMap

  def ids: Vector[String] = executors.map(_.id)
  def get(id: String): Option[ExecutorAddress] = byId.get(id)
}

object ClusterView {
  val Empty: ClusterView = ClusterView(Vector.empty)
}
