// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import io.megaphone.plan.{Plan, SealedStep, StepId}

/** How far a plan has come, as the valid seals say. The steps of a group are sealed in their order.
  *
  * @param taken
  *   the steps as they were taken, each with its batch, in the order of the batches
  * @param completed
  *   of a plan on demand: the batch from which on all bins of a step are complete, by the step's
  *   group and index
  * @param end
  *   why no further step will be taken, if the plan was ended before its last one
  */
final case class PlanProgress(
    plan: Plan,
    taken: Vector[(Long, SealedStep)] = Vector.empty,
    completed: Map[(Long, Int), Long] = Map.empty,
    end: Option[PlanEnd] = None
) {
  private lazy val takenByGroup: Map[Long, Int] =
    taken.groupMapReduce(_._2.step.group)(_ => 1)(_ + _)

  /** How many steps of a group are sealed: the index of its next one. */
  def next(group: Long): Int = takenByGroup.getOrElse(group, 0)

  /** Whether it has steps that are still to be sealed. */
  def isOpen: Boolean = end.isEmpty && taken.size < plan.stepsCount

  /** The steps of which bins may be incomplete at a batch. */
  def incompleteAt(batch: Long): Vector[SealedStep] =
    if (!plan.mode.isOnDemand) Vector.empty
    else
      taken.collect {
        case (since, step)
            if since <= batch && !completed.get(indexOf(step.step)).exists(_ <= batch) =>
          step
      }

  private[planlog] def completing(step: StepId, batch: Long): PlanProgress =
    copy(completed = completed.updated(indexOf(step), batch))

  private def indexOf(step: StepId) = (step.group, step.index)

  /** Its last step has taken effect after all; the steps after that one are given up. */
  private[planlog] def restored: PlanProgress =
    copy(end = end.filter(_ => taken.size < plan.stepsCount).map(_ => PlanProgress.Restored))

  private[planlog] def +(fact: (Long, SealedStep)): PlanProgress = copy(taken = taken :+ fact)

  /** Without the steps of batches that do not count any more. */
  private[planlog] def without(isVoid: Long => Boolean): PlanProgress =
    if (taken.exists(fact => isVoid(fact._1)) || completed.valuesIterator.exists(isVoid))
      copy(
        taken = taken.filterNot(f => isVoid(f._1)),
        completed = completed.filterNot { case (_, batch) => isVoid(batch) }
      )
    else this
}

object PlanProgress {
  private val Restored = PlanEnd(
    Some("A run gave its next step up, and an older run had committed it: submit the rest again.")
  )
}

/** The end of a plan before its last step.
  *
  * @param reason
  *   why it could not go on; None if a user has ended it
  */
final case class PlanEnd(reason: Option[String])
