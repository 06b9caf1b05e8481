// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import java.util.Locale

import io.megaphone.view.{
  Bool, Column, Int32, Int32List, Int64, Int64List, Kind, Table, Tables, Text
}

/** The page and the Arrow schemas generated from the tables of `io.megaphone.view`. */
object TablesReference {

  /** The text of `spark_megaphone/_tables.py`. */
  def python: String =
    s"""# SPDX-License-Identifier: Apache-2.0
       |\"\"\"The Arrow schemas of all tables.
       |
       |${Reference.Generated}
       |\"\"\"
       |
       |import pyarrow as pa
       |
       |${Tables.all.map(schema(_)).mkString("\n")}""".stripMargin

  /** The text of `docs/reference/tables.md`. */
  def markdown: String =
    s"""# Tables
       |
       |The tables that a running query shows. In Python, `Megaphone.bins()`, `workers()`,
       |`plans()`, `migrations()` and `relocations()` return Arrow tables with these columns, in
       |this order. `Megaphone.queries()`, `Megaphone.executors()` and `Megaphone.drains()` are
       |about the whole application.
       |`Plan.steps` is a tuple with a `PlanStep` for each row of the table `steps`: its `index` is
       |the column `step`, its `moves` is a dict made of `bins` and `targets`. A table is of the
       |moment it is asked for, and has the same schema if it has no row. The words (bin, worker,
       |group, step) are in the [glossary](../glossary.md).
       |This page is generated from the code by
       |`io.megaphone.spark.conf.Reference`.
       |""".stripMargin + Tables.all.map(section(_)).mkString

  private def schema(table: Table[_]): String =
    s"""${Reference.comment(table.doc)}
       |${table.name.toUpperCase(Locale.ROOT)} = pa.schema(
       |    [
       |${table.columns.map(field(_)).mkString("\n")}
       |    ]
       |)
       |""".stripMargin

  private def field(column: Column[_]): String = {
    val nullable = if (column.isNullable) "" else ", nullable=False"
    s"""        pa.field("${column.name}", ${pythonType(column.kind)}$nullable),"""
  }

  private def section(table: Table[_]): String = {
    val rows = table.columns.map { c =>
      val nullable = if (c.isNullable) "yes" else ""
      Vector(s"`${c.name}`", typeName(c.kind), nullable, c.doc)
    }
    s"\n## ${table.name}\n\n${Reference.wrapped(table.doc)}\n\n" +
      Reference.table(Vector("column", "type", "null", "meaning"), rows)
  }

  private def pythonType(kind: Kind): String = kind match {
    case Int32 => "pa.int32()"
    case Int64 => "pa.int64()"
    case Text => "pa.string()"
    case Bool => "pa.bool_()"
    case Int32List => "pa.list_(pa.int32())"
    case Int64List => "pa.list_(pa.int64())"
  }

  private def typeName(kind: Kind): String = kind match {
    case Int32 => "int32"
    case Int64 => "int64"
    case Text => "string"
    case Bool => "bool"
    case Int32List => "list of int32"
    case Int64List => "list of int64"
  }
}
