// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.immutable.ArraySeq

import io.megaphone.format.{ExecutorAddress, StoreId, StoreKey, VersionIds}
import io.megaphone.plan.{Operator, RoutingTable, StepId, TransferMode}
import io.megaphone.protocol.Route
import io.megaphone.state.StoreBatch

/** The routing tables of a group: that of the batch before, and that of this batch. */
final case class Tables(before: RoutingTable, after: RoutingTable)

/** The facts that the tasks of a batch must agree on, for one group, in addition to the tables.
  *
  * @param run
  *   Spark's run id
  * @param batch
  *   number of the batch, which is also the version of the state that it reads
  * @param ids
  *   by store: checkpoint ids of its workers at that version
  * @param incoming
  *   steps that take effect with this batch
  * @param addresses
  *   executors of the sources of those steps, by worker, as far as they are known
  * @param outgoing
  *   steps of later batches, for which sources publish blocks
  * @param label
  *   the text that Spark's plan shows
  * @param incomplete
  *   bins that may be incomplete
  * @param scans
  *   by store and scanned family: what the operator looks for when it looks at all rows
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
    label: String,
    incomplete: Set[Int] = Set.empty,
    scans: Map[(StoreId, String), DueScan] = Map.empty
) {
  override def toString: String = label

  /** The facts for one store. */
  def storeBatch(store: StoreId, tables: Tables): StoreBatch = StoreBatch(
    StoreKey(run, store),
    batch,
    tables.before,
    tables.after,
    ids.getOrElse(store, VersionIds.Fixed),
    incomplete
  )
}

/** What an operator that looks at all rows of a family looks for: those whose time is `until` or
  * earlier. It acts on no other.
  *
  * @param store
  *   the store whose rows have the time
  * @param family
  *   the family whose rows have the time
  * @param isInKey
  *   whether the key has the time; else the value
  * @param columns
  *   how many columns the key or value has
  * @param column
  *   ordinal of the column that has the time
  * @param field
  *   if the column is a struct: the ordinal of the field that has the time
  * @param until
  *   the time; its unit is the operator's
  * @param never
  *   the time that says that there is none
  * @param opened
  *   another store that the operator looks into meanwhile: for each key if that store has the
  *   times, else for each that is due
  */
final case class DueScan(
    store: String,
    family: String,
    isInKey: Boolean,
    columns: Int,
    column: Int,
    field: Option[Int],
    until: Long,
    never: Option[Long] = None,
    opened: Option[String] = None
)

/** A step that takes effect with this batch, and the bins that it moves.
  *
  * @param onDemand
  *   of a step on demand: the bins of it whose source and target run on different executors
  */
final case class Incoming(
    step: StepId,
    bins: ArraySeq[Int],
    onDemand: Option[Vector[Route]] = None
)

/** A step of a later batch: the bins of it that travel between executors.
  *
  * @param isAnnouncedNow
  *   whether this batch is the first to which the step is announced
  */
final case class Outgoing(
    step: StepId,
    mode: TransferMode,
    isAnnouncedNow: Boolean,
    routes: Vector[Route]
)

/** Where the bins of a batch's steps come from, and how long a task waits for a block of them. */
final case class Sources(
    steps: Map[Int, StepId],
    addresses: Map[Int, ExecutorAddress],
    tailDeadlineMs: Long,
    imageDeadlineMs: Long,
    onDemand: Map[StepId, Vector[Route]] = Map.empty
) {

  /** The step that moves a bin with this batch, if any does. */
  def stepOf(bin: Int): Option[StepId] = steps.get(bin)
}

object Sources {
  val None: Sources = Sources(Map.empty, Map.empty, 0, 0)

  def of(assignment: Assignment, tailDeadlineMs: Long, imageDeadlineMs: Long): Sources = {
    val steps = assignment.incoming.flatMap(i => i.bins.map(_ -> i.step)).toMap
    val onDemand = assignment.incoming.flatMap(i => i.onDemand.map(i.step -> _)).toMap
    Sources(steps, assignment.addresses, tailDeadlineMs, imageDeadlineMs, onDemand)
  }
}
