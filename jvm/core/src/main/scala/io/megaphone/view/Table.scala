// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

/** The type of a column, whichever language shows it. */
sealed trait Kind

case object Int32 extends Kind
case object Int64 extends Kind
case object Text extends Kind
case object Bool extends Kind
case object Int32List extends Kind
case object Int64List extends Kind

/** A column of a table.
  *
  * @param doc
  *   one sentence
  * @param value
  *   what a row has in it: an Int, Long, String, Boolean or a Seq of numbers, as `kind` says; an
  *   Option of it if the column is nullable
  */
final case class Column[A](
    name: String,
    kind: Kind,
    isNullable: Boolean,
    doc: String,
    value: A => Any
)

object Column {

  /** A column that has a value in every row. */
  def of[A](name: String, kind: Kind, doc: String, value: A => Any): Column[A] =
    Column(name, kind, isNullable = false, doc, value)

  /** A nullable column. */
  def optional[A](name: String, kind: Kind, doc: String, value: A => Option[Any]): Column[A] =
    Column(name, kind, isNullable = true, doc, value)

  /** The column that names a group of operators. */
  def ofGroup[A](value: A => Long): Column[A] =
    of("operator", Int64, "The group of operators, by the smallest operator id in it.", value)

  /** The column behind one that counts incomplete bins. */
  def bytesToCome[A](value: A => Long): Column[A] =
    of("bytes_to_come", Int64, "About how many bytes of records were elsewhere of these.", value)
}

/** A table of rows of one type.
  *
  * @param doc
  *   one sentence: what a row is
  */
final case class Table[A](name: String, doc: String, columns: Vector[Column[A]])

/** All tables, in the order of the reference page. */
object Tables {
  val all: Vector[Table[_]] = Vector(
    QueryRow.table,
    WorkerRow.table,
    BinRow.table,
    PlanRow.table,
    StepRow.table,
    MigrationRow.table,
    RelocationRow.table,
    ExecutorRow.table,
    DrainRow.table
  )
}
