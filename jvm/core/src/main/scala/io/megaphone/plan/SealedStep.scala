// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** A step that has its batch.
  *
  * @param moves
  *   what takes effect: all moves of the step, but for those that there was no room for where they
  *   lead to
  * @param noRoom
  *   why bins stay where they are, if some do
  */
final case class SealedStep(step: StepId, moves: Vector[Move], noRoom: Option[String] = None)
