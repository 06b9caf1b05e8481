// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import io.megaphone.checkpoint.planlog.Verdict
import io.megaphone.protocol.{PlanStatus, Protocol}

/** How far the plans of a run are, by its protocol's state. Pure. */
private[metrics] object PlansOfRun {

  /** The plans that were over before the run began, of a run that has planned no batch. Not those
    * that the start itself has ended: they end with this run.
    */
  def overBefore(state: Protocol.State): Set[String] = {
    val start = state.history.last
    val endedByStart = start.map(_.verdict) match {
      case Some(_: Verdict.TakesBack) =>
        state.history.takenBack.toVector.flatMap(_.steps).map(_.step.planId)
      case _ => Vector.empty[String]
    }
    // The batches before the first one are committed, and none else.
    over(state, start.map(_.firstBatch - 1)).keySet -- endedByStart
  }

  /** The plans that are over, except for those that `isKnown` names.
    *
    * @param committed
    *   the newest batch that the query has committed; asked for only where it decides
    */
  def over(
      state: Protocol.State,
      committed: => Option[Long],
      isKnown: String => Boolean = _ => false
  ): Map[String, PlanStatus] =
    state.history.plans.valuesIterator
      .filterNot(p => p.isOpen || isKnown(p.plan.id))
      .map(p => p.plan.id -> PlanStatus.of(state, p.plan, committed))
      .filter(_._2.isFinal)
      .toMap

  /** Whether what is over depends on what is committed. */
  def asksForCommitted(state: Protocol.State, isKnown: String => Boolean): Boolean = {
    var isAsked = false
    over(state, { isAsked = true; None }, isKnown)
    isAsked
  }
}
