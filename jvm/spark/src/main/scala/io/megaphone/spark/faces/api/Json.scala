// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.api

import java.util.LinkedHashMap

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import io.megaphone.view.Table

/** Rows of any table as JSON objects, a field for each column. */
private[api] object Json {
  private val mapper = new ObjectMapper

  def write(value: AnyRef): String = mapper.writeValueAsString(value)

  /** A row as a map, which `write` turns into an object. */
  def row[A](table: Table[A], row: A): LinkedHashMap[String, Any] = {
    val fields = new LinkedHashMap[String, Any]
    table.columns.foreach(c => fields.put(c.name, plain(c.value(row))))
    fields
  }

  /** An array of rows. */
  def rows[A](table: Table[A], rows: Iterable[A]): String =
    write(rows.map(row(table, _)).toSeq.asJava)

  private def plain(value: Any): Any = value match {
    case option: Option[_] => option.map(plain).orNull
    case values: Seq[_] => values.asJava
    case other => other
  }
}
