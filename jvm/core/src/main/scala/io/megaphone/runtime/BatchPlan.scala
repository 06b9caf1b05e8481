// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.checkpoint.Settled
import io.megaphone.checkpoint.planlog.History
import io.megaphone.format.{ExecutorAddress, StoreId, VersionIds}
import io.megaphone.plan.Group
import io.megaphone.protocol.Protocol

/** What the host does for a planned batch.
  *
  * @param tables
  *   by group, for the batch's plan
  * @param assignments
  *   by group, for the batch's plan
  * @param pins
  *   wishes where workers should run, of those that are not known to be there
  * @param sweep
  *   a sweep that is due, to be run in the background
  * @param obsoleteRecords
  *   the plan log's records before this number may be deleted, in the background
  */
final case class BatchPlan(
    decision: Protocol.Decision,
    tables: Map[Long, Tables],
    assignments: Map[Long, Assignment],
    pins: Vector[Pin],
    sweep: Option[SweepOrder],
    obsoleteRecords: Option[Long]
)

/** A wish that the tasks of a worker run on an executor. */
final case class Pin(
    operator: Long,
    stores: Vector[String],
    worker: Int,
    executor: ExecutorAddress
)

/** A sweep of the state files that no retained version needs.
  *
  * @param version
  *   the oldest version whose ids the commit log still has, under checkpoint format v2
  * @param newest
  *   the newest settled version
  */
final case class SweepOrder(
    version: Long,
    newest: Settled,
    groups: Vector[Group],
    history: History
) {

  /** The oldest version that must stay readable.
    *
    * @param ids
    *   those at `version`; none under checkpoint format v1. What the batch that made `version`
    *   changed is read with the version before it, which under v1 needs no ids
    */
  def oldest(ids: Map[StoreId, VersionIds]): Settled = {
    val at = if (ids.isEmpty) version - 1 else version
    Settled(at, groups.map(g => g.id -> history.tableAt(g.id, at - 1)).toMap, ids)
  }
}
