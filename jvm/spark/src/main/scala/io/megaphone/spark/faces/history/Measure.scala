// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

/** Which size of a bin a drawing shows, and how large the bins are by it. */
sealed abstract class Measure(val name: String, val title: String)
object Measure {
  case object Bytes extends Measure("bytes", "bytes")
  case object Keys extends Measure("keys", "keys")
  case object Written extends Measure("written", "bytes written in a batch")
  val all: Vector[Measure] = Vector(Bytes, Keys, Written)

  /** The measure of a name; bytes if there is none. */
  def of(name: String): Measure = all.find(_.name == name).getOrElse(Bytes)
}
