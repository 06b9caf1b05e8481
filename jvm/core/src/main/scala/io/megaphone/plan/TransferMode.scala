// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import java.util.Locale

import io.megaphone.errors.InvalidPlanException

/** When the bytes of a moving bin travel. Prints as the name that [[TransferMode.parse]] reads. */
sealed abstract class TransferMode(val name: String) extends Serializable {
  override def toString: String = name
}

object TransferMode {

  /** At the boundary: the batch of the step waits for the whole bin (Megaphone, section 3.3, PVLDB
    * 12(9)).
    */
  case object Direct extends TransferMode("direct")

  /** Ahead, in the background: only the tail of the last batch is left for the boundary. */
  case object Prepared extends TransferMode("prepared")

  val values: Vector[TransferMode] = Vector(Direct, Prepared)

  /** The mode of this name, in any case.
    *
    * @throws InvalidPlanException
    *   UNKNOWN_MODE
    */
  def parse(text: String): TransferMode = {
    val name = text.trim.toLowerCase(Locale.ROOT)
    values
      .find(_.name == name)
      .getOrElse(throw new InvalidPlanException.UnknownMode(text, values.map(_.name)))
  }
}
