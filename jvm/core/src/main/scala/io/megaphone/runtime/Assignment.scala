// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.{ExecutorAddress, StoreId, StoreKey, VersionIds}
import io.megaphone.plan.{Operator, RoutingTable, StepId, TransferMode}
import io.megaphone.protocol.Route
import io.megaphone.state.StoreBatch

/** The routing tables of a batch for one group: of the batch before, and of this one. */
final case class Tables(before: RoutingTable, after: RoutingTable)

/** What the tasks of a batch must agree on, for one group, in addition to the tables.
  *
  * @param run
  *   Spark's run id
  * @param batch
  *   the batch, which reads the state of the same version
  * @param ids
  *   of each store's workers at that version
  * @param incoming
  *   steps that take effect with this batch
  * @param addresses
  *   by worker: its executor, of the sources of those steps, as far as it is known
  * @param outgoing
  *   steps to come, for which sources publish
  */
final case class Assignment(
    run: String,
    group: Long,
    operators: Vector[Operator],
    batch: Long,
    ids: Map[StoreId, VersionIds],
    incoming: Vector[Incoming],
    addresses: Map[Int, ExecutorAddress],
    outgoing: Vector[Outgoing],
    label: String
) {
  override def toString: String = label

  /** The same for one store. */
  def storeBatch(store: StoreId, tables: Tables): StoreBatch = StoreBatch(
    StoreKey(run, store),
    batch,
    tables.before,
    tables.after,
    ids.getOrElse(store, VersionIds.Fixed)
  )
}

/** A step that takes effect with this batch, and the bins that it moves. */
final case class Incoming(step: StepId, bins: Vector[Int])

/** A step to come: what of it travels between executors.
  *
  * @param isAnnouncedNow
  *   whether this batch is the first that the step is announced to
  */
final case class Outgoing(
    step: StepId,
    mode: TransferMode,
    isAnnouncedNow: Boolean,
    routes: Vector[Route]
)

/** Where the bins of a batch's steps come from, and how long a task waits for them. */
final case class Sources(
    steps: Map[Int, StepId],
    addresses: Map[Int, ExecutorAddress],
    tailDeadlineMs: Long,
    imageDeadlineMs: Long
) {

  /** The step that moves a bin with this batch, if any does. */
  def stepOf(bin: Int): Option[StepId] = steps.get(bin)
}

object Sources {
  val None: Sources = Sources(Map.empty, Map.empty, 0, 0)

  def of(assignment: Assignment, tailDeadlineMs: Long, imageDeadlineMs: Long): Sources = {
    val steps = assignment.incoming.flatMap(i => i.bins.map(_ -> i.step)).toMap
    Sources(steps, assignment.addresses, tailDeadlineMs, imageDeadlineMs)
  }
}
