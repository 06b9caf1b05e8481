// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import java.util.Locale

import io.megaphone.errors.InvalidPlanException

/** When the bytes of a moving bin travel. One file a mode says all that the protocol and the tasks
  * do differently for it. Prints as the name that [[TransferMode.parse]] reads.
  */
abstract class TransferMode private[plan] (val name: String) extends Serializable {

  /** How many of a plan's next steps in a group are announced at once.
    *
    * @param window
    *   the most steps that are to be prepared at once
    */
  def announcedSteps(window: Int): Int

  /** Whether targets make replicas ahead of the step, and the step waits for them. */
  def isPreparedAhead: Boolean

  /** Whether a source publishes images of its settled bins in the batch that announces the step. */
  def publishesImageAhead: Boolean

  /** Whether a source publishes, after each commit before the step, whole images of the new head;
    * if not, it publishes the tails of that commit.
    */
  def publishesImageAfterCommit: Boolean

  /** Whether it is only for queries that executors stand by for. */
  def needsStandbys: Boolean = false

  override def toString: String = name
}

object TransferMode {
  val Direct: TransferMode = DirectMode
  val Prepared: TransferMode = PreparedMode
  val Replicated: TransferMode = ReplicatedMode

  val values: Vector[TransferMode] = Vector(Direct, Prepared, Replicated)

  /** The mode of this name, in any case. Throws InvalidPlanException, UNKNOWN_MODE. */
  def parse(text: String): TransferMode = {
    val name = text.trim.toLowerCase(Locale.ROOT)
    values
      .find(_.name == name)
      .getOrElse(throw new InvalidPlanException.UnknownMode(text, values.map(_.name)))
  }
}
