// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.megaphone.Allocation

import io.megaphone.runtime.Releases

/** Ends executors by Spark's own means.
  *
  * Threads: one at a time.
  *
  * @param shuffles
  *   those that jobs need which run, or have just ended
  */
private final class SparkReleases(
    context: SparkContext,
    headcount: Headcount,
    shuffles: () => Set[Int]
) extends Releases.Host
    with Logging {
  override def needOf(executor: String): Option[String] =
    if (headcount.active < 2) Some("It is the last one that gets tasks.")
    else
      Allocation
        .wanted(context)
        .filter(_ >= headcount.active)
        .map(n => s"Spark's dynamic allocation wants $n executors, and would start another.")

  override def cordon(executor: String): Unit = {
    logInfo(s"Executor $executor gets no more tasks: it is to be ended.")
    Allocation.cordon(context, executor)
  }

  override def useOf(executor: String): Option[String] =
    if (Allocation.isBusy(context, executor)) Some("A task runs there.")
    else
      Option.when(Allocation.hasOutput(context, shuffles(), executor))(
        "A job that runs, or has just ended, needs what its tasks have left there."
      )

  override def end(executor: String): Boolean = {
    headcount.leaves(executor)
    headcount.tell()
    Allocation.end(context, executor)
  }
}
