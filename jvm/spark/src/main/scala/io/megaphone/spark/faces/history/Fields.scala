// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.POJONode

/** Reads the fields of an event's body. What is missing or of another type counts as 0, empty or
  * not known: an event may be damaged, or of another version.
  */
private[history] final class Fields(node: JsonNode) {
  def text(name: String): String = optionalText(name).getOrElse("")
  def optionalText(name: String): Option[String] =
    Option(node.path(name)).filter(_.isTextual).map(_.asText)
  def boolean(name: String): Boolean = node.path(name).asBoolean
  def int(name: String): Int = node.path(name).asInt
  def long(name: String): Long = node.path(name).asLong
  def optionalLong(name: String): Option[Long] =
    Option(node.path(name)).filter(_.isNumber).map(_.asLong)
  def ints(name: String): Vector[Int] = longs(name).map(_.toInt)

  /** Live, an array may be in the event as it was made; from a log it is always of nodes. */
  def longs(name: String): Vector[Long] = node.path(name) match {
    case live: POJONode =>
      live.getPojo match {
        case numbers: Array[Int] => numbers.iterator.map(_.toLong).toVector
        case numbers: Array[Long] => numbers.toVector
        case _ => Vector.empty
      }
    case other => other.asScala.iterator.map(_.asLong).toVector
  }
  def all(name: String): Vector[Fields] =
    node.path(name).asScala.iterator.map(new Fields(_)).toVector
}
