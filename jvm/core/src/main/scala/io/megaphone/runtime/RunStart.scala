// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.checkpoint.{Recovery, Settled}
import io.megaphone.checkpoint.planlog.History
import io.megaphone.errors.UnsupportedQueryException
import io.megaphone.format.{StoreId, VersionIds}
import io.megaphone.plan.Group

/** What a run that starts makes of the plan log. */
private[runtime] object RunStart {

  /** The groups that a run goes on with: those of its first batch, with families in the places that
    * the plan log gives them.
    *
    * @throws io.megaphone.errors.UnsupportedQueryException
    *   if the checkpoint does not fit the query
    */
  def groups(
      history: History,
      first: QueryRun.FirstBatch,
      checkpointRoot: String
  ): Vector[Group] = {
    if (history.isEmpty && first.number > 0)
      throw UnsupportedQueryException.missingPlanLog(checkpointRoot)
    history.first.fold(first.groups) { began =>
      if (!areSame(began.groups, first.groups))
        throw changed(began.groups, first.groups)
      val newest = history.last.get
      if (newest.checkpointFormat == 2 && first.checkpointFormat == 1)
        throw UnsupportedQueryException.formatDowngrade
      newest.groups.zip(first.groups).map { case (before, now) => before.withFamiliesOf(now) }
    }
  }

  /** Whether the state that the first batch reads was written under the seal that the run before
    * took back: an older run may have committed its batch after all. `recovery` is asked only if
    * there was such a seal.
    *
    * @param recovery
    *   reads the state files of a store
    */
  def isRestored(
      history: History,
      first: QueryRun.FirstBatch,
      groups: Vector[Group],
      recovery: StoreId => Recovery
  ): Boolean = {
    val contested = groups.iterator.flatMap { group =>
      history.contestedAt(group.id, first.number - 1).map(group.stores.head -> _)
    }
    contested.nextOption().exists { case (store, table) =>
      val of = first.ids.getOrElse(store, VersionIds.Fixed)
      Settled.isWrittenUnder(table, store, of, first.number, recovery(store))
    }
  }

  /** The error of a query whose operators are not those of its checkpoint. */
  def changed(before: Vector[Group], now: Vector[Group]): UnsupportedQueryException =
    UnsupportedQueryException.changedOperators(describe(before), describe(now))

  private def areSame(one: Vector[Group], other: Vector[Group]): Boolean =
    one.map(_.operators.size) == other.map(_.operators.size) &&
      one
        .flatMap(_.operators)
        .zip(other.flatMap(_.operators))
        .forall { case (a, b) => a.isSame(b) }

  private def describe(groups: Vector[Group]): String = groups
    .map(_.operators.map(o => s"${o.id} ${o.name}").mkString("(", ", ", ")"))
    .mkString(" ")
}
