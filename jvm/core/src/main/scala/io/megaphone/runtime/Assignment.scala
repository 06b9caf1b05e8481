// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.immutable.ArraySeq

import io.megaphone.format.{ExecutorAddress, StoreId, StoreKey, VersionIds}
import io.megaphone.plan.{Group, Operator, RoutingTable, StepId, TransferMode}
import io.megaphone.protocol.{Protocol, Route}
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

object Assignment {

  /** The facts of a group that follow from a decision.
    *
    * @param addressOf
    *   where a worker of the group ran last, if others can ask that executor
    */
  def of(
      run: String,
      decision: Protocol.Decision,
      group: Group,
      tables: Tables,
      addressOf: Int => Option[ExecutorAddress]
  ): Assignment = {
    import decision.batch
    def whereabouts = batch.whereabouts(group.id)
    val incoming = decision.sealedSteps
      .filter(_.id.group == group.id)
      .map { a =>
        // A standby may turn out to be of no use: the target then asks the source.
        def routes = Route.of(a.step, tables.before, whereabouts.copy(stoodBy = Vector.empty))
        Incoming(
          a.id,
          a.step.moves.iterator.map(_.bin).to(ArraySeq),
          Option.when(a.mode.isOnDemand)(routes)
        )
      }
    val sources = incoming.flatMap(_.bins.map(tables.before.workerOf)).distinct
    val outgoing = decision.announced.filter(_.id.group == group.id).map { a =>
      val routes = Route.of(a.step, tables.after, whereabouts)
      Outgoing(a.id, a.mode, a.since == batch.number && a.images.nonEmpty, routes)
    }
    val stores = group.stores.toSet
    Assignment(
      run,
      group.id,
      group.operators,
      batch.number,
      batch.ids.filter { case (store, _) => stores(store) },
      incoming,
      sources.flatMap(s => addressOf(s).map(s -> _)).toMap,
      outgoing,
      label = tables.after.toString,
      decision.incomplete.getOrElse(group.id, Set.empty)
    )
  }
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
  * @param hasImagesNow
  *   whether sources publish images for it with this batch, the first that it is announced to
  */
final case class Outgoing(
    step: StepId,
    mode: TransferMode,
    hasImagesNow: Boolean,
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
