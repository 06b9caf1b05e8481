// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.ExecutorAddress
import io.megaphone.placement.Seat
import io.megaphone.runtime.ReportedStandbys.StuckBatches

/** What is seen of a run's executors and workers: which executors there are, where each worker ran
  * last, and what executors report of the state of workers that run elsewhere.
  *
  * Threads: `see` one at a time; all others as [[LastRuns]] and [[ReportedStandbys]] say. `cluster`
  * may be called by any thread at any time.
  */
private[runtime] final class Observed {
  val runs = new LastRuns
  val reported = new ReportedStandbys
  @volatile private var seen = ClusterView.Empty

  /** The newest view of the cluster. */
  def cluster: ClusterView = seen

  /** Takes a newer view, before a batch is planned or while it runs. Returns the executors that are
    * gone.
    */
  def see(now: ClusterView, batch: Long): Vector[String] = {
    val lost = seen.ids.filterNot(id => now.get(id).isDefined)
    runs.forget(lost)
    reported.forget(lost, batch)
    seen = now
    lost
  }

  /** The executor that a worker of an operator ran on last, if it is known. */
  def executorOf(operator: Long, worker: Int): Option[String] = runs.executorOf(operator, worker)

  /** The same of a group's worker: all operators of a group run in the same tasks. */
  def executorOf(seat: Seat): Option[String] = executorOf(seat.group, seat.worker)

  /** The address of that executor, if others can ask it. */
  def addressOf(seat: Seat): Option[ExecutorAddress] = executorOf(seat).flatMap(cluster.peer)

  /** Whether a worker ran last on an executor that is gone. */
  def isLost(group: Long, worker: Int): Boolean =
    executorOf(group, worker).exists(cluster.get(_).isEmpty)

  /** Of the executors that may get a worker, those with its newest standbys that are whole. One
    * elsewhere may be newer, and is of no use.
    */
  def stateOn(scene: Scene, seat: Seat): Seq[String] =
    reported.newestOn(scene.groupOf(seat), seat.worker, cluster.open)

  /** Of those executors, the one whose standby has most of the worker's bins: its task loads the
    * others alone.
    */
  def mostOn(scene: Scene, seat: Seat): Option[String] =
    reported.mostOn(scene.groupOf(seat), seat.worker, cluster.open, scene.binsOf(seat))

  /** Whether an executor could not take a worker just now: it may try again after a while, if it is
    * the only one that is left.
    */
  def hasJustRefused(scene: Scene, seat: Seat, executor: String): Boolean =
    reported.refusals(seat).get(executor).exists(_ + StuckBatches > scene.batch)
}
