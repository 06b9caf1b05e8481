// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.util.control.NonFatal

/** Ends the executors that are to be ended once they are empty: see [[Drains]]. Called every so
  * often, it takes each a step further.
  *
  *   1. An executor that is empty, or has no time left, waits until the application can do without:
  *      another one gets tasks, and no other would be started in its place. So does one that would
  *      be empty if Spark did not run workers there whose state is elsewhere.
  *   1. It is cordoned: it gets no more tasks. That cannot be taken back. ''The driver dies:'' the
  *      cluster manager ends its executors.
  *   1. It waits until no task runs there, no job that runs needs what tasks have left there, and
  *      no step on demand still takes from it, if it has time left. ''The executor dies:'' it is as
  *      good as ended; the job runs its tasks again.
  *   1. It is ended. ''The cluster manager does not do it:'' the executor stays, without tasks.
  *
  * Threads: one at a time.
  */
final class Releases(drains: Drains, host: Releases.Host) {
  private var asked = Set.empty[String] // the cluster manager was asked to end them

  /** Takes each a step further. What the host throws about one is told as what that one waits for,
    * and tried again.
    *
    * @param look
    *   looks at what an executor has
    */
  def tick(look: String => Drain.OfExecutor): Unit = {
    // First those of the calls before: what began before a cordon is known by now.
    val cordoned = drains.cordoned
    asked = asked.intersect(cordoned)
    (cordoned -- asked).toVector.sorted.foreach { executor =>
      step(executor) {
        lending(executor, look).orElse(host.useOf(executor)).getOrElse {
          val isAgreed = host.end(executor)
          asked += executor
          if (isAgreed) "The cluster manager was asked to end it."
          else
            "Spark does not say that the cluster manager agrees to end it. If it is still there " +
              "in a minute, end it with the cluster manager's own means: Spark asks only once."
        }
      }
    }
    drains.toCordon(look).foreach { executor =>
      step(executor) {
        host.needOf(executor).getOrElse {
          if (drains.cordon(executor))
            try host.cordon(executor)
            catch { case e: Throwable => drains.uncordon(executor); throw e }
          "It gets no more tasks, and is about to be ended."
        }
      }
    }
  }

  private def lending(executor: String, look: String => Drain.OfExecutor): Option[String] = {
    def lends = look(executor).queries.exists(_.exports > 0)
    Option.when(!drains.overdue(executor) && lends)("Steps on demand still take state from there.")
  }

  private def step(executor: String)(take: => String): Unit =
    drains.waits(
      executor,
      try take
      catch { case NonFatal(e) => s"It could not be taken further, and is tried again: $e" }
    )
}

object Releases {

  /** What Spark does with an executor. */
  trait Host {

    /** Why the application cannot do without an executor, in a sentence; None if it can. */
    def needOf(executor: String): Option[String]

    /** Gives an executor no more tasks, for good. */
    def cordon(executor: String): Unit

    /** Why an executor that gets no more tasks cannot be ended yet; None if it can. */
    def useOf(executor: String): Option[String]

    /** Asks the cluster manager to end an executor, and to start no other in its place. Returns
      * whether it has agreed.
      */
    def end(executor: String): Boolean
  }
}
