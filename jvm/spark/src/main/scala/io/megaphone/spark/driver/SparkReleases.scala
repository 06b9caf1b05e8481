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
  * @param excluded
  *   the executors that Spark gives no tasks for now, for too many have failed there
  * @param shuffles
  *   those that jobs need which run, or have just ended
  * @param watchMs
  *   for how long dynamic allocation is watched: between two batches it wants few executors, and
  *   with the next one it would start another
  */
private final class SparkReleases(
    context: SparkContext,
    headcount: Headcount,
    excluded: Set[String] => Set[String],
    shuffles: () => Set[Int],
    watchMs: Long = SparkReleases.WatchMs
) extends Releases.Host
    with Logging {
  private val wanted = new RecentMost(watchMs)

  /** Sees how many executors dynamic allocation wants now. Called every so often. */
  def look(): Unit = Allocation.wanted(context).foreach(wanted.add)

  override def needOf(executor: String): Option[String] = {
    val others = headcount.active - executor
    if ((others -- excluded(others)).isEmpty) Some("It is the last one that gets tasks.")
    else if (!Allocation.isDynamic(context)) None
    else
      wanted.most match {
        case None =>
          Some("How many executors Spark's dynamic allocation wants is watched for half a minute.")
        case Some(most) =>
          Option.when(most > others.size)(
            s"Spark's dynamic allocation wants $most executors, and would start another."
          )
      }
  }

  /** The cluster manager is to want fewer from now on: else it would start another if this one
    * dies.
    */
  override def cordon(executor: String): Unit = {
    logInfo(s"Executor $executor gets no more tasks: it is to be ended.")
    Allocation.cordon(context, executor)
    headcount.waitsForEnd(executor)
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

private object SparkReleases {

  /** As long as a query plans no batch until it counts as idle. */
  private val WatchMs = Idleness.AfterNanos / 1000000L
}
