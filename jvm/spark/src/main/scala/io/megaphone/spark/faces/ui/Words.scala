// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import io.megaphone.spark.faces.history.{EndFacts, PlanFacts, RunFacts}

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

  /** Why a query is not in bins. */
  def elsewhere(provider: String): String =
    s"Its state is kept by $provider, which its checkpoint or its configuration names, so it " +
      "does not move."
}
