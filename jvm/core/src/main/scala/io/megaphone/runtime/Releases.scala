// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

/** Ends the executors that are to be ended once they are empty: see [[Drains]]. Called every so
  * often, it takes each a step further.
  *
  *   1. An executor that is empty, or has no time left, is cordoned: it gets no more tasks. That
  *      cannot be taken back. ''The driver dies:'' the cluster manager ends its executors.
  *   1. It waits until no task runs there, no job that runs needs what tasks have left there, and
  *      no other executor would be started in its place. ''The executor dies:'' it is as good as
  *      ended; the job runs its tasks again.
  *   1. It is ended. ''The cluster manager does not do it:'' it is asked again.
  *
  * Threads: one at a time.
  */
final class Releases(drains: Drains, host: Releases.Host) {

  /** Takes each a step further. What the host throws about one is told as what that one waits for.
    *
    * @param look
    *   looks at what an executor has
    */
  def tick(look: String => Drain.OfExecutor): Unit = {
    // First those of the calls before: what began before a cordon is known by now.
    drains.cordoned.toVector.sorted.foreach { executor =>
      val reason = host.useOf(executor).getOrElse {
        host.end(executor)
        "The cluster manager was asked to end it."
      }
      drains.waits(executor, reason)
    }
    drains.toCordon(look).foreach { executor =>
      host.cordon(executor)
      drains.waits(executor, "It gets no more tasks, and is about to be ended.")
    }
  }
}

object Releases {

  /** What Spark does with an executor. */
  trait Host {

    /** Gives an executor no more tasks, for good. */
    def cordon(executor: String): Unit

    /** Why an executor cannot be ended yet, in a sentence; None if it can. */
    def useOf(executor: String): Option[String]

    /** Asks the cluster manager to end an executor, and to start no other in its place. */
    def end(executor: String): Unit
  }
}
