// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import io.megaphone.format.{StateName, StoreKey, VersionIds}
import io.megaphone.plan.RoutingTable

/** The facts that all tasks of a batch must agree on, for one store. They travel only in the
  * batch's plan, so stale facts, or those of another batch, cannot be mistaken for them.
  *
  * @param version
  *   the version that the batch reads: number of batches committed before it
  * @param before
  *   the table of the batch before, whose workers wrote that version
  * @param after
  *   the table of this batch
  * @param ids
  *   checkpoint ids of the workers of `before` at `version`
  * @param incomplete
  *   bins that may be incomplete in this batch (I13): what their commits write must not depend on
  *   what has arrived when
  */
final case class StoreBatch(
    key: StoreKey,
    version: Long,
    before: RoutingTable,
    after: RoutingTable,
    ids: VersionIds,
    incomplete: Set[Int] = Set.empty
) {

  /** The name of a worker's state at `version`. */
  def nameOf(worker: Int): StateName = ids.nameOf(version, worker)

  /** The bins that the table before gave to a worker; a worker that is new had none. */
  def binsBefore(worker: Int): Array[Int] =
    if (worker < before.workers) before.binsOf(worker) else Array.empty[Int]

  /** Whether a step takes effect with this batch. */
  def isStep: Boolean = before.number != after.number
}
