// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.util.Try

import io.megaphone.checkpoint.{Recovery, Settled, StateSweeper, SweptFiles}
import io.megaphone.checkpoint.planlog.History
import io.megaphone.format.{ExecutorAddress, StoreId, VersionIds}
import io.megaphone.plan.Group
import io.megaphone.protocol.Protocol

/** The orders to the host for a planned batch.
  *
  * @param tables
  *   by group; they go into the batch's plan
  * @param assignments
  *   by group; they go into the batch's plan
  * @param pins
  *   wishes for the workers that are not known to run where they are wanted
  * @param sweep
  *   a sweep that is due; the host runs it in the background
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

/** An order to delete the state files that no retained version needs.
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
    * Under checkpoint format v1 that is the version before `version`, because Spark reads the
    * changes of a batch together with the version before it. Its files have no ids.
    *
    * @param ids
    *   the ids at `version`; none under checkpoint format v1
    */
  def oldest(ids: Map[StoreId, VersionIds]): Settled = {
    val at = if (ids.isEmpty) version - 1 else version
    Settled(at, groups.map(g => g.id -> history.tableAt(g.id, at - 1)).toMap, ids)
  }

  /** Sweeps each store, see [[StateSweeper]]. A store that cannot be swept keeps its files, and the
    * others are swept.
    *
    * @param ids
    *   those at `version`; none under checkpoint format v1
    * @param report
    *   is told what came of each store: how many files were deleted
    */
  def sweep(
      ids: Map[StoreId, VersionIds],
      recovery: StoreId => Recovery,
      files: StoreId => SweptFiles
  )(report: (StoreId, Try[Int]) => Unit): Unit = {
    val settled = oldest(ids)
    for (group <- groups; store <- group.stores) {
      def delete =
        StateSweeper.sweep(group.id, store, settled, newest, recovery(store), files(store))
      report(store, Try(delete))
    }
  }
}
