// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.events

import com.fasterxml.jackson.databind.node.ObjectNode

import io.megaphone.plan.{Group, Plan}
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.BinSize
import io.megaphone.spark.driver.{ApplicationDriver, QueryDriver, TableRows}
import io.megaphone.spark.faces.json.Json
import io.megaphone.view.{ExecutorRow, MigrationRow, PlanRow, StepRow, WorkerRow}

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
    */
  def state(query: QueryDriver, state: Protocol.State, group: Group): ObjectNode = {
    val table = state.currentTable(group.id)
    val sizes = query.commits.sizes(group.stores)
    def each(size: BinSize => Long) =
      Array.tabulate(table.bins)(bin => sizes.get(bin).fold(Unknown)(size))
    val next = state.announced.filter(_.id.group == group.id).flatMap(_.step.moves)
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
      "arrived" -> arrivedLast(state, group.id),
      "workers" -> workers(query, group.id).map(Json.row(WorkerRow.table, _))
    )
  }

  def workers(query: QueryDriver, group: Long): Vector[WorkerRow] =
    TableRows.workers(query).filter(_.operator == group)

  /** The bins that the newest step of a group has moved. */
  private def arrivedLast(state: Protocol.State, group: Long): Vector[Int] = {
    val taken = state.history.plans.keysIterator
      .flatMap(state.history.taken(_))
      .filter(_._2.step.group == group)
      .toVector
    val newest = taken.map(_._1).maxOption
    taken.filter(step => newest.contains(step._1)).flatMap(_._2.moves.map(_.bin))
  }

  /** @param seenAt
    *   the newest batch when the plan was first seen in this run; None if it had ended before
    */
  def plan(row: PlanRow, plan: Plan, seenAt: Option[Long]): ObjectNode = {
    val body = Json.row(PlanRow.table, row)
    body.remove("planned_batch") // it changes with each batch
    val workers = plan.steps.valuesIterator.flatMap(_.lastOption).map(_.workers).toVector.sorted
    body.setAll[ObjectNode](Json.node("workers" -> workers, "seen_at" -> seenAt))
  }

  /** @param arrivals
    *   what arrived at the batch of the step, in the stores of its group
    */
  def step(row: StepRow, arrivals: Vector[MigrationRow]): ObjectNode = {
    val own = arrivals.filter(a => row.targets.contains(a.worker))
    Json.row(StepRow.table, row).setAll[ObjectNode](costs(own))
  }

  def recovery(batch: Long, recovered: Vector[MigrationRow]): ObjectNode = {
    val workers = recovered.map(row => (row.operator, row.worker)).distinct.size
    val body = Json.node("batch" -> batch, "workers" -> workers)
    body.setAll[ObjectNode](costs(recovered))
  }

  /** Bins count once, however many stores a group has. */
  private def costs(rows: Vector[MigrationRow]): ObjectNode = {
    def bins(count: MigrationRow => Int) = rows.groupMapReduce(_.worker)(count)(_ max _).values.sum
    Json.node(
      "bins_relabelled" -> bins(_.binsRelabelled),
      "bins_from_peer" -> bins(_.binsFromPeer),
      "bins_from_checkpoint" -> bins(_.binsFromCheckpoint),
      "bytes_from_peer" -> rows.map(_.bytesFromPeer).sum,
      "bytes_from_checkpoint" -> rows.map(_.bytesFromCheckpoint).sum,
      "wait_ms" -> rows.map(_.waitMs).maxOption.getOrElse(0L)
    )
  }

  def executors(application: ApplicationDriver): ObjectNode =
    Json.node(
      "executors" -> TableRows.executors(application).map(Json.row(ExecutorRow.table, _))
    )

  def ended(error: Option[String]): ObjectNode =
    Json.node("error" -> error.map(_.linesIterator.take(1).mkString.take(ErrorChars)))

  private val ErrorChars = 500
}
