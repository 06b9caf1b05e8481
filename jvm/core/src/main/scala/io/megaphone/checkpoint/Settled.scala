// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import io.megaphone.format.{FileName, StateName}
import io.megaphone.plan.RoutingTable

/** A settled version of a query's state.
  *
  * @param tables
  *   by group: the table whose workers wrote it
  * @param names
  *   by operator and store: id of each worker; none under checkpoint format v1
  */
final case class Settled(
    version: Long,
    tables: Map[Long, RoutingTable],
    names: Map[(Long, String), Vector[String]]
) {

  /** The file of each worker of a store, and the bins that it has. */
  def heads(group: Long, operator: Long, store: String): Vector[Sweep.Head] = {
    val ids = names.getOrElse((operator, store), Vector.empty)
    val table = tables(group)
    Vector
      .tabulate(table.workers) { worker =>
        Sweep.Head(
          FileName(worker, StateName(version, ids.lift(worker).getOrElse(StateName.FixedId))),
          table.binsOf(worker).toVector,
          table.contentHash
        )
      }
      .filter(_.bins.nonEmpty)
  }
}
