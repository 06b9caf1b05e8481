// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.format.WorkerId
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.Committed

/** A row of the table `queries`. */
final case class QueryRow(
    queryId: String,
    runId: String,
    name: Option[String],
    operators: Int,
    workers: Int,
    bins: Int,
    keys: Long,
    bytes: Long,
    lastBatch: Option[Long],
    openPlan: Option[String]
)

object QueryRow {
  val table: Table[QueryRow] = Table(
    "queries",
    "A row for each running query that has its state in bins.",
    Vector(
      Column.of("query_id", Text, "Spark's id of the query, the same after a restart.", _.queryId),
      Column.of("run_id", Text, "Spark's id of this run of the query.", _.runId),
      Column.optional("name", Text, "The name that the query was given.", _.name),
      Column.of("operators", Int32, "Number of its stateful operators.", _.operators),
      Column.of("workers", Int32, "Number of its rows in the table `workers`.", _.workers),
      Column.of("bins", Int32, "Number of its rows in the table `bins`.", _.bins),
      Column.of("keys", Int64, "Number of live keys in all its stores.", _.keys),
      Column.of("bytes", Int64, "Bytes of the live records in them.", _.bytes),
      Column.optional("last_batch", Int64, "The newest batch that was planned.", _.lastBatch),
      Column.optional("open_plan", Text, "Id of the oldest plan that has steps left.", _.openPlan)
    )
  )

  /** The row of a query. Its id and name are known to the host only.
    *
    * @param newest
    *   the newest commit of each worker
    */
  def of(
      queryId: String,
      name: Option[String],
      state: Protocol.State,
      newest: Map[WorkerId, Committed]
  ): QueryRow = {
    val workers = WorkerRow.of(state, (_, _) => None, newest)
    val tables = state.groups.map(g => state.currentTable(g.id))
    QueryRow(
      queryId,
      state.run,
      name,
      operators = state.groups.map(_.operators.size).sum,
      workers = workers.size,
      bins = tables.map(_.bins).sum,
      keys = workers.map(_.keys).sum,
      bytes = workers.map(_.bytes).sum,
      lastBatch = state.decision.map(_.batch.number),
      openPlan = state.history.open.headOption.map(_.id)
    )
  }
}
