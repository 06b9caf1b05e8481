// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import io.megaphone.spark.faces.history.{EndFacts, PlanFacts, RunFacts}

/** What the pages say in more than one place. */
private[ui] object Words {

  /** What a plan does. */
  def plan(plan: PlanFacts): String = {
    val moves = if (plan.moves == 1) "1 move" else s"${Numbers.exact(plan.moves.toLong)} moves"
    val after = plan.workers.distinct match {
      case Vector() => ""
      case Vector(1) => ", to 1 worker"
      case several => s", to ${several.mkString(" and ")} workers"
    }
    moves + after
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
