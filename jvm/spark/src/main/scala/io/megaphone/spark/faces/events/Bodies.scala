// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.events

import com.fasterxml.jackson.databind.node.ObjectNode

import io.megaphone.plan.{Group, Plan}
import io.megaphone.protocol.{Announced, Protocol}
import io.megaphone.runtime.{BinSize, Loss}
import io.megaphone.spark.driver.{ApplicationDriver, QueryDriver, TableRows}
import io.megaphone.spark.faces.json.Json
import io.megaphone.view.{
  DrainRow, ExecutorRow, MigrationRow, PlanRow, RelocationRow, StepRow, WorkerRow
}

/** The bodies of events, made of the rows that every face shows. Threads: any. */
private[faces] object Bodies {

  /** A size that no commit has told yet. */
  val Unknown: Long = -1

  def query(query: QueryDriver, state: Protocol.State): ObjectNode = Json.node(
    "query_id" -> query.query.id.toString,
    "name" -> query.query.name,
    "plugin" -> ApplicationDriver.version,
    "groups" -> state.groups.map { group =>
      Json.node(
        "operator" -> group.id,
        "operators" -> group.operators.map(o => Json.node("id" -> o.id, "name" -> o.name)),
        "bins" -> state.currentTable(group.id).bins,
        "is_movable" -> group.isMovable
      )
    }
  )

  /** Of a query that has its state on another provider. */
  def queryElsewhere(id: String, name: Option[String], provider: String): ObjectNode =
    Json.node("query_id" -> id, "name" -> name, "provider" -> provider)

  /** The state of a group. Bins are told by position: `worker_of_bin`, and for each size an array
    * with −1 where it is not known.
    *
    * @param workers
    *   the rows of the group's workers
    */
  def state(
      query: QueryDriver,
      state: Protocol.State,
      group: Group,
      workers: Vector[WorkerRow]
  ): ObjectNode = {
    val table = state.currentTable(group.id)
    val sizes = Array.tabulate(table.bins)(query.commits.sizes(group.stores))
    def each(size: BinSize => Long) = sizes.map(_.fold(Unknown)(size))
    val next = announced(state, group.id).flatMap(_.step.moves)
    Json.node(
      "operator" -> group.id,
      "name" -> group.operators.map(_.name).mkString(", "),
      "batch" -> state.decision.map(_.batch.number),
      "worker_of_bin" -> Array.tabulate(table.bins)(table.workerOf),
      "keys_of_bin" -> each(_.keys),
      "bytes_of_bin" -> each(_.bytes),
      "bytes_written_of_bin" -> each(_.bytesWritten),
      "moving" -> next.map(_.bin),
      "targets" -> next.map(_.target),
      "arrived" -> lastStep(state, group.id).toVector.flatMap(_._2),
      "workers" -> workers.map(Json.row(WorkerRow.table, _))
    )
  }

  /** The steps of a group that are to come. Until the next batch is planned, steps of a plan that
    * was cancelled are still announced.
    */
  def announced(state: Protocol.State, group: Long): Vector[Announced] = {
    val open = state.history.open.map(_.id).toSet
    state.announced.filter(step => step.id.group == group && open(step.id.planId))
  }

  /** The batch of the newest step of a group, and the bins that it moved. */
  def lastStep(state: Protocol.State, group: Long): Option[(Long, Vector[Int])] = {
    val taken = state.history.plans.keysIterator
      .flatMap(state.history.taken(_).findLast(_._2.step.group == group))
      .toVector
    taken.map(_._1).maxOption.map { newest =>
      newest -> taken.filter(_._1 == newest).flatMap(_._2.moves.map(_.bin))
    }
  }

  /** @param seen
    *   what there was when the plan was first seen in this run; None if it had ended before
    */
  def plan(row: PlanRow, plan: Plan, seen: Option[RunJournal.Seen]): ObjectNode = {
    val body = Json.row(PlanRow.table, row)
    body.remove("planned_batch") // it changes with each batch
    val after = plan.steps.toVector.sortBy(_._1).flatMap(_._2.lastOption).map(_.workers)
    body.setAll[ObjectNode](
      Json.node(
        "workers_before" -> seen.map(_.workers),
        "workers_after" -> after,
        "seen_at" -> seen.map(_.batch)
      )
    )
  }

  /** Which bins moved is in the state of the group, and in the table `steps`.
    *
    * @param arrivals
    *   what arrived at the batch of the step, in the stores of its group
    */
  def step(row: StepRow, arrivals: Vector[MigrationRow]): ObjectNode = {
    val own = arrivals.filter(a => row.targets.contains(a.worker))
    Json
      .node(
        "plan" -> row.plan,
        "operator" -> row.operator,
        "step" -> row.step,
        "batch" -> row.batch,
        "workers" -> row.workers,
        "moved" -> (row.bins.size - row.stayed.size),
        "stayed" -> row.stayed.size
      )
      .setAll[ObjectNode](costs(own))
  }

  def recovery(batch: Long, recovered: Vector[MigrationRow], groups: Vector[Group]): ObjectNode = {
    val groupOf = groups.flatMap(g => g.operators.map(_.id -> g.id)).toMap
    val workers = recovered.map(row => (groupOf.get(row.operator), row.worker)).distinct.size
    Json.node("batch" -> batch, "workers" -> workers).setAll[ObjectNode](costs(recovered))
  }

  /** @param brought
    *   what workers brought at a batch as it needed it
    */
  def demand(batch: Long, brought: Vector[MigrationRow]): ObjectNode = Json
    .node("batch" -> batch, "sub_bins" -> brought.map(_.subBins).sum)
    .setAll[ObjectNode](costs(brought))

  private def costs(rows: Vector[MigrationRow]): ObjectNode = Json.node(
    "bytes_from_peer" -> rows.map(_.bytesFromPeer).sum,
    "bytes_from_checkpoint" -> rows.map(_.bytesFromCheckpoint).sum,
    "wait_ms" -> rows.map(_.waitMs).maxOption.getOrElse(0L)
  )

  /** What is to be emptied. */
  def drains(application: ApplicationDriver): Vector[ObjectNode] =
    TableRows.drainsUnderWay(application).map { row =>
      val body = Json.row(DrainRow.table, row)
      body.remove("seconds") // it changes with each look
      body
    }

  def executors(application: ApplicationDriver, drains: Vector[ObjectNode]): ObjectNode =
    Json.node(
      "executors" -> TableRows.executors(application).map(Json.row(ExecutorRow.table, _)),
      "drains" -> drains
    )

  def relocation(row: RelocationRow): ObjectNode = Json.row(RelocationRow.table, row)

  def loss(loss: Loss): ObjectNode = Json.node(
    "executor" -> loss.executor,
    "batch" -> loss.batch,
    "workers" -> loss.workers,
    "promoted" -> loss.promoted
  )

  def ended(error: Option[String]): ObjectNode =
    Json.node("error" -> error.map(_.linesIterator.take(1).mkString.take(ErrorChars)))

  private val ErrorChars = 500
}
