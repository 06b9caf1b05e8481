// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import io.megaphone.format.{StateName, StoreKey, VersionIds}
import io.megaphone.plan.RoutingTable

/** What every task of a batch must agree on, for one store. It travels in the batch's plan, never
  * by another way, so a stale or foreign one cannot be mistaken for it.
  *
  * @param version
  *   the version that the batch reads: number of batches committed before it
  * @param before
  *   the table of the batch before, whose workers wrote that version
  * @param after
  *   the table of this batch
  * @param ids
  *   of each worker of `before` at `version`
  */
final case class StoreBatch(
    key: StoreKey,
    version: Long,
    before: RoutingTable,
    after: RoutingTable,
    ids: VersionIds
) {

  /** The name of a worker's state at `version`. */
  def nameOf(worker: Int): StateName = ids.nameOf(version, worker)

  def isStep: Boolean = before.number != after.number
}
