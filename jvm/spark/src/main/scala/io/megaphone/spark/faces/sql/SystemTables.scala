// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.sql

import java.util.{EnumSet, Set => JSet}

import org.apache.spark.sql.connector.catalog.{
  Column => SparkColumn, SupportsRead, Table => SparkTable, TableCapability
}
import org.apache.spark.sql.connector.expressions.{Expression, Literal, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.{Scan, ScanBuilder, SupportsPushDownV2Filters}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

import io.megaphone.spark.driver.{Queries, QueryDriver, TableRows}
import io.megaphone.view.{
  BinRow, Column, DrainRow, ExecutorRow, MigrationRow, PlanRow, QueryRow, RelocationRow, StepRow,
  Table, Text, WorkerRow
}

/** The catalog's tables: those of `io.megaphone.view`, of all running queries that have planned a
  * batch with state. Each table of a query begins with the columns that name it. They cannot be
  * written.
  *
  * A DataFrame over one is of the moment of its first execution.
  */
private[sql] object SystemTables {

  /** The columns that name a query. */
  val OfQuery: Vector[Column[QueryDriver]] = Vector(
    Column.of("query_id", Text, "Spark's id of the query, the same after a restart.", idOf),
    Column.of("run_id", Text, "Spark's id of this run of the query.", _.runId),
    Column.optional("query_name", Text, "The name that the query was given.", _.query.name)
  )

  /** The rows of plans, which procedures return too. */
  val plans: Table[(QueryDriver, PlanRow)] = SqlRows.prefixed(OfQuery, PlanRow.table)

  /** The rows of relocations, which procedures return too. */
  val relocations: Table[(QueryDriver, RelocationRow)] =
    SqlRows.prefixed(OfQuery, RelocationRow.table)

  val all: Vector[SystemTable[_]] = Vector(
    new SystemTable(QueryRow.table, planned(_).map(TableRows.query)),
    ofEach(WorkerRow.table)(TableRows.workers),
    ofEach(BinRow.table)(TableRows.bins),
    ofEach(PlanRow.table)(TableRows.plans),
    ofEach(StepRow.table)(TableRows.steps),
    ofEach(MigrationRow.table)(TableRows.migrations),
    ofEach(RelocationRow.table)(TableRows.relocations),
    new SystemTable(ExecutorRow.table, _ => TableRows.executors(Queries.application)),
    new SystemTable(DrainRow.table, _ => TableRows.drains(Queries.application))
  )

  private def idOf(query: QueryDriver): String = query.query.id.toString

  private def ofEach[A](table: Table[A])(rowsOf: QueryDriver => Seq[A]): SystemTable[_] =
    new SystemTable[(QueryDriver, A)](
      SqlRows.prefixed(OfQuery, table),
      runs => for (query <- planned(runs); row <- rowsOf(query)) yield query -> row
    )

  private def planned(runs: Option[Set[String]]): Vector[QueryDriver] =
    Queries.application.planned.filter(query => runs.forall(_(query.runId)))
}

/** A table that is read on the driver.
  *
  * @param rows
  *   is called at each execution, with the runs that are asked for, or None for all. It leaves out
  *   the others, so what one of them cannot tell fails only its own readers
  */
private[sql] final class SystemTable[A](table: Table[A], rows: Option[Set[String]] => Seq[A])
    extends SparkTable
    with SupportsRead {
  override def name: String = table.name

  override def columns: Array[SparkColumn] = SqlRows.schemaOf(table).fields.map { field =>
    SparkColumn.create(
      field.name,
      field.dataType,
      field.nullable,
      field.getComment().orNull,
      null
    )
  }

  override def capabilities: JSet[TableCapability] = EnumSet.of(TableCapability.BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new ScanOfRuns(table, rows)
}

/** A scan that takes over `run_id = …`. So a reader of one query makes no job, and no other query's
  * rows are made for it.
  */
private final class ScanOfRuns[A](table: Table[A], rows: Option[Set[String]] => Seq[A])
    extends ScanBuilder
    with SupportsPushDownV2Filters {
  private var runs = Option.empty[Set[String]]
  private var pushed = Array.empty[Predicate]

  override def pushPredicates(predicates: Array[Predicate]): Array[Predicate] = {
    val (ours, others) = predicates.partition(p => isNotNull(p) || runOf(p).isDefined)
    pushed = ours
    ours.flatMap(runOf).foreach(run => runs = Some(runs.fold(Set(run))(_.filter(_ == run))))
    others
  }

  override def pushedPredicates: Array[Predicate] = pushed

  override def build(): Scan = SqlRows.scan(table)(rows(runs))

  private def isNotNull(predicate: Predicate) =
    predicate.name == "IS_NOT_NULL" && predicate.children.forall(isRunId)

  private def runOf(predicate: Predicate): Option[String] =
    (predicate.name, predicate.children) match {
      case ("=", Array(column, value: Literal[_])) if isRunId(column) =>
        Option(value.value).collect { case text: UTF8String => text.toString }
      case _ => None
    }

  private def isRunId(column: Expression) = column match {
    case reference: NamedReference => reference.fieldNames.sameElements(Array("run_id"))
    case _ => false
  }
}
