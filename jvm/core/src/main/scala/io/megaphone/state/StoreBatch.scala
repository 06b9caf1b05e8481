// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import io.megaphone.format.{StateName, StoreKey}
import io.megaphone.plan.RoutingTable

/** What every task of a batch must agree on, for one store. It travels in the batch's plan (never
  * by a side way), so a stale or foreign one cannot be taken for it.
  *
  * @param version
  *   the version that the batch reads: number of batches committed before it
  * @param before
  *   the table of the batch before, whose workers wrote that version
  * @param after
  *   the table of this batch
  * @param ids
  *   checkpoint id of each worker of `before` at `version`; empty under checkpoint format v1
  */
final case class StoreBatch(
    key: StoreKey,
    version: Long,
    before: RoutingTable,
    after: RoutingTable,
    ids: Vector[String]
) {

  /** The name of a worker's state at `version`. */
  def nameOf(worker: Int): StateName =
    StateName(version, if (ids.isEmpty) StateName.FixedId else ids(worker))

  def isStep: Boolean = before.number != after.number
}
