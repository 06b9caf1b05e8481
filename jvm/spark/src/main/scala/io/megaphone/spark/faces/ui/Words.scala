// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import io.megaphone.runtime.Loss
import io.megaphone.spark.faces.history.{EndFacts, PlanFacts, RunFacts}
import io.megaphone.view.DrainRow

/** What the pages say in more than one place. */
private[ui] object Words {

  /** What a plan does. */
  def plan(plan: PlanFacts): String = {
    val moves = if (plan.moves == 1) "1 move" else s"${Numbers.exact(plan.moves.toLong)} moves"
    def of(workers: Vector[Int]) = workers.distinct match {
      case Vector(1) => "1 worker"
      case several => s"${several.mkString(" and ")} workers"
    }
    val (before, after) = (plan.workersBefore, plan.workersAfter)
    if (after.isEmpty || before == after) moves
    else if (before.isEmpty) s"$moves, to ${of(after)}"
    else s"$moves, from ${before.distinct.mkString(" and ")} to ${of(after)}"
  }

  /** Whether a run still runs, and what it failed with. */
  def state(run: RunFacts): String = run.end match {
    case None => "running"
    case Some(EndFacts(_, None)) => "stopped"
    case Some(EndFacts(_, Some(error))) => s"failed: $error"
  }

  /** What was lost with an executor. */
  def loss(loss: Loss): String = {
    val standing =
      if (loss.promoted == loss.workers) "all went on where their standbys are."
      else if (loss.promoted == 0) "all are read from the checkpoint."
      else s"${loss.promoted} went on where their standbys are."
    s"Executor ${loss.executor} with ${workers(loss.workers)}: $standing"
  }

  /** How far an executor's drain is. */
  def drain(drain: DrainRow): String = {
    val done = drain.status match {
      case "drained" => "is empty and may go"
      case "cordoned" => "is empty and about to be ended"
      case _ => s"is to be emptied; left to go: ${workers(drain.workers)}"
    }
    (s"Executor ${drain.executor} $done." +: drain.reason.toVector).mkString(" ")
  }

  def workers(count: Int): String = if (count == 1) "1 worker" else s"$count workers"

  /** Why a query is not in bins. */
  def elsewhere(provider: String): String =
    s"Its state is kept by $provider, which its checkpoint or its configuration names, so it " +
      "does not move."
}
