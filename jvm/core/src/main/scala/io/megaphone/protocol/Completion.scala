// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import scala.collection.immutable.BitSet

import io.megaphone.plan.{RoutingTable, SealedStep, StepId}
import io.megaphone.protocol.Protocol.State

/** When steps on demand are complete: rule 36.
  *
  *   1. From its batch on, the bins of such a step may be incomplete. Which bins may be is a fact
  *      of each batch's plan, and of nobody's memory (I13): what commits write depends on it.
  *   1. Executors tell when they have all bins of a worker. ''Lost:'' they tell again.
  *   1. Once that is so for each worker that the step gave bins, in each store, the step has
  *      arrived: nobody asks its sources any more.
  *   1. The next batch seals that it is complete. ''Dies before:'' the next run does so with the
  *      first batch whose offset log it writes itself.
  */
object Completion {

  /** Why bins of a plan's steps stay incomplete; None if nothing holds them up. */
  def heldUpBy(state: State, planId: String): Option[String] = {
    val waiting = for {
      group <- state.groups.iterator
      step <- arriving(state, group.id, state.decision.fold(-1L)(_.batch.number))
      if step.step.planId == planId
      since <- state.history.sealedSteps(planId).get(step.step).iterator
      (executor, workers) <- state.restsHeldUp
      ((store, worker), why) <- workers
      if group.stores.contains(store) && step.moves.exists(_.target == worker)
      if !isWhole(state, group.id, worker, since)
    } yield (worker, executor, why)
    waiting.minOption.map { case (worker, executor, why) =>
      s"Worker $worker does not get the rest of its bins, because executor $executor $why"
    }
  }

  /** The steps of a group of which bins may be incomplete at a batch and have not arrived.
    *
    * @param isLost
    *   whether a worker has run last on an executor that is gone: once the step's batch is settled,
    *   such a worker asks nobody for the rest
    */
  private[protocol] def arriving(
      state: State,
      group: Long,
      batch: Long,
      isLost: (Long, Int) => Boolean = (_, _) => false
  ): Vector[SealedStep] = state.history.incompleteAt(group, batch).filterNot { step =>
    areAll(state, step, state.currentTable(group).workers) { (worker, since) =>
      isWhole(state, group, worker, since) || batch > since && isLost(group, worker)
    }
  }

  /** The steps that are complete from a batch on, which nobody but this run has run. */
  private[protocol] def steps(
      state: State,
      batch: Long,
      before: Map[Long, RoutingTable]
  ): Vector[StepId] = for {
    group <- state.groups
    step <- state.history.incompleteAt(group.id, batch - 1)
    // A run begins with nothing in memory, and reads whole bins.
    if state.firstBatch.contains(batch) ||
      areAll(state, step, before(group.id).workers)(isWhole(state, group.id, _, _))
  } yield step.step

  /** The bins that may be incomplete at a batch, by group.
    *
    * @param due
    *   the steps that take effect with it
    * @param completed
    *   the steps that are complete from it on
    */
  private[protocol] def bins(
      state: State,
      batch: Long,
      due: Vector[Announced],
      completed: Vector[StepId]
  ): Map[Long, BitSet] = state.groups.map { group =>
    val earlier =
      state.history.incompleteAt(group.id, batch).filterNot(s => completed.contains(s.step))
    val now = due.filter(a => a.id.group == group.id && a.mode.isOnDemand)
    val moves = earlier.iterator.flatMap(_.moves) ++ now.iterator.flatMap(_.step.moves)
    group.id -> moves.map(_.bin).to(BitSet)
  }.toMap

  /** Whether all workers that a step gave bins are so, at its batch.
    *
    * @param workers
    *   how many there are: those that were done away with have nothing to tell
    */
  private def areAll(state: State, step: SealedStep, workers: Int)(
      isSo: (Int, Long) => Boolean
  ): Boolean =
    state.history.sealedSteps(step.step.planId).get(step.step).exists { since =>
      step.moves.map(_.target).distinct.filter(_ < workers).forall(isSo(_, since))
    }

  /** Whether all bins of a worker have been complete at a version after a batch. */
  private def isWhole(state: State, group: Long, worker: Int, since: Long): Boolean =
    state.group(group).stores.forall(store => state.wholeAt.get((store, worker)).exists(_ > since))
}
