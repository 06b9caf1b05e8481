// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import io.megaphone.plan.Plan

/** How far a plan has come; always derived, never recorded. */
sealed abstract class PlanStatus(val name: String, val isFinal: Boolean = false)

object PlanStatus {

  /** In the plan log; no batch has seen it yet. */
  case object Submitted extends PlanStatus("submitted")

  /** A batch has announced its first steps; none has taken effect. */
  case object Preparing extends PlanStatus("preparing")

  /** Some steps have taken effect; or all have, and the last one's batch is still running, or bins
    * of a step on demand are incomplete.
    */
  case object Running extends PlanStatus("running")
  case object Done extends PlanStatus("done", isFinal = true)
  case object Cancelled extends PlanStatus("cancelled", isFinal = true)

  /** It is over, and some of its moves were not made: there was no room for them, or it could not
    * go on.
    */
  case object Failed extends PlanStatus("failed", isFinal = true)

  /** In the order in which a plan may come by them. */
  val all: Vector[PlanStatus] = Vector(Submitted, Preparing, Running, Done, Cancelled, Failed)

  /** The status.
    *
    * @param committed
    *   the newest batch that the query has committed; asked for only where it decides
    */
  def of(state: Protocol.State, plan: Plan, committed: => Option[Long]): PlanStatus = {
    val sealedSteps = state.history.sealedSteps(plan.id)
    val planned = state.decision.fold(-1L)(_.batch.number)
    if (sealedSteps.size == plan.stepsCount) {
      val last = sealedSteps.values.max
      def isArriving = state.groups.exists { group =>
        Completion.arriving(state, group.id, planned).exists(_.step.planId == plan.id)
      }
      if (last >= planned && !committed.exists(_ >= last) || isArriving) Running
      else if (state.history.taken(plan.id).exists(_._2.noRoom.isDefined)) Failed
      else Done
    } else if (state.history.end(plan.id).isDefined)
      state.history.end(plan.id).flatMap(_.reason).fold[PlanStatus](Cancelled)(_ => Failed)
    else if (sealedSteps.nonEmpty) Running
    else if (state.announced.exists(_.id.planId == plan.id)) Preparing
    else Submitted
  }
}
