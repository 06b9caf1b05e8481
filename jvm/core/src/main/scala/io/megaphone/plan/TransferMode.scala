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

  /** Whether targets make replicas ahead of the step. */
  def isPreparedAhead: Boolean

  /** What a source publishes of the new head after each commit before the step. */
  def publishesAfterCommit: AfterCommit

  /** Whether bins may be incomplete once the step has taken effect. Sources survey them ahead. */
  def isOnDemand: Boolean = false

  /** Whether the step waits for what is made ahead: targets' replicas or sources' surveys. */
  final def isAwaited: Boolean = isPreparedAhead || isOnDemand

  /** Whether it is only for queries that executors stand by for. */
  def needsStandbys: Boolean = false

  override def toString: String = name
}

/** What a source publishes of bins that will leave it, after a commit. */
sealed trait AfterCommit extends Serializable

object AfterCommit {

  /** The records that the commit appended to them. */
  case object Tails extends AfterCommit

  /** All of their records. */
  case object Images extends AfterCommit

  /** Which of them it has, without records. */
  case object Offers extends AfterCommit
}

object TransferMode {
  val Direct: TransferMode = DirectMode
  val Prepared: TransferMode = PreparedMode
  val Replicated: TransferMode = ReplicatedMode
  val OnDemand: TransferMode = OnDemandMode

  val values: Vector[TransferMode] = Vector(Direct, Prepared, Replicated, OnDemand)

  /** The mode of this name, in any case. Throws InvalidPlanException, UNKNOWN_MODE. */
  def parse(text: String): TransferMode = {
    val name = text.trim.toLowerCase(Locale.ROOT)
    values
      .find(_.name == name)
      .getOrElse(throw new InvalidPlanException.UnknownMode(text, values.map(_.name)))
  }
}
