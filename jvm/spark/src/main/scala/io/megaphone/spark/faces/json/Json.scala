// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.json

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.{ObjectNode, POJONode}

import io.megaphone.view.Table

/** Rows of any table as JSON objects, a field for each column. Threads: any. */
private[faces] object Json {
  private val mapper = new ObjectMapper

  /** An object of fields. A value is null, a number, a text, a boolean, a node, an array of
    * numbers, or an Option or a Seq of them.
    */
  def node(fields: (String, Any)*): ObjectNode = {
    val made = mapper.createObjectNode
    fields.foreach { case (name, value) => made.set[JsonNode](name, tree(value)) }
    made
  }

  /** A row as an object. */
  def row[A](table: Table[A], row: A): ObjectNode =
    node(table.columns.map(column => column.name -> column.value(row)): _*)

  /** An array of rows, as text. */
  def rows[A](table: Table[A], rows: Iterable[A]): String = array(rows.map(row(table, _)))

  /** An array of objects, as text. */
  def array(nodes: Iterable[ObjectNode]): String = tree(nodes.toSeq).toString

  private def tree(value: Any): JsonNode = mapper.valueToTree(plain(value))

  /** Arrays of numbers stay as they are, inside a node: as nodes they would take ten times the
    * heap.
    */
  private def plain(value: Any): Any = value match {
    case numbers: Array[Int] => new POJONode(numbers)
    case numbers: Array[Long] => new POJONode(numbers)
    case option: Option[_] => option.map(plain).orNull
    case values: Seq[_] => values.map(plain).asJava
    case other => other
  }
}
