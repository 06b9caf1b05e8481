// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import io.megaphone.protocol.PlanStatus

/** Which plans are known to be over, so that each end is counted once.
  *
  *   1. `began`: what is over before a run's first batch was counted when it ended, or by another
  *      application. ''Missed:'' nothing of the run is counted.
  *   1. `ends`, as often as one likes: what is over now and was not before.
  *   1. `ended`: forgets the query, unless a newer run of it has begun. Spark reports the end of a
  *      run late, so both runs can find the same plan over.
  *
  * Threads: any.
  */
private[metrics] final class PlanEnds {
  import PlanEnds._

  private var known = Map.empty[String, Known] // by the query's id, which restarts keep

  def began(query: String, run: String, over: Set[String]): Unit =
    synchronized(known += query -> Known(run, over))

  /** Whether a plan's end is counted, or is not to be: as that of a query that has not begun. */
  def isCounted(query: String, plan: String): Boolean =
    synchronized(known.get(query).forall(_.over(plan)))

  /** The final statuses that are to be counted now.
    *
    * @param read
    *   reads the plans of the run, quickly: it is called under a lock, so that no reading is
    *   overtaken by a newer one
    */
  def ends(query: String, run: String)(read: => Plans): Vector[PlanStatus] = synchronized {
    known.get(query).toVector.flatMap { before =>
      val plans = read
      val found = plans.over.filterNot { case (plan, _) => before.over(plan) }
      val over = before.over ++ found.keySet
      // Only the newest run says which plans may be forgotten: what it has, others may lack.
      val kept = if (run == before.run) over.filter(plans.all) else over
      known += query -> before.copy(over = kept)
      found.values
    }
  }

  def ended(query: String, run: String): Unit =
    synchronized(if (known.get(query).exists(_.run == run)) known -= query)
}

private[metrics] object PlanEnds {

  /** The plans that a run's plan log has.
    *
    * @param over
    *   those that have a final status, with it; those counted already may be left out
    */
  final case class Plans(all: Set[String], over: Map[String, PlanStatus])

  private final case class Known(run: String, over: Set[String])
}
