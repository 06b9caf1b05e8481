// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec
import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.megaphone.checkpoint.Recovery
import io.megaphone.format.{StateName, StoreKey, WorkerId}
import io.megaphone.log.memory.SpillException
import io.megaphone.pace.Throttle
import io.megaphone.state.Registry
import io.megaphone.transfer.{StandbyDuty, StandbyKeeper}

/** The standbys that an executor keeps by the driver's orders.
  *
  *   1. `keepAll` brings those forward that have all bins, or makes the others slice by slice.
  *      ''Dies:'' they are gone; the driver gives the duty to another executor.
  *   1. One that fails rests for some rounds of orders. One that has no room is reported.
  *   1. `giveWay` drops those that there are, for a batch has no room. They rest, and are reported.
  *
  * Slices keep to the rate in the orders, but not one during which the worker has gone on by
  * `LateVersions`: its executor would look stuck, and at last no tails would lead on from it.
  *
  * Threads: any. One call of `keepAll` at a time for a run and a value of `areWhole`.
  *
  * @param orders
  *   the newest ones
  * @param round
  *   how many orders were obeyed
  * @param recoveryOf
  *   reads a store's files; the second argument is the checkpoint's root folder, the third is
  *   called with the records that are read
  */
final class StandbyWork private[runtime] (
    registry: Registry,
    orders: () => Orders,
    round: () => Long,
    recoveryOf: (StoreKey, String, Array[Byte] => Unit) => Recovery,
    faults: FaultPoints,
    warn: String => Unit,
    throttle: Throttle,
    sliceBytes: Long
) {
  import BackOff.FailuresTold
  import StandbyWork._

  private val rests = new BackOff[WorkerId](round, RestMax)
  private val withoutRoom = ConcurrentHashMap.newKeySet[WorkerId]()

  /** How far each standby is that there is. */
  private[runtime] def standing: Vector[Standing] =
    for (duty <- orders().standbys; holding <- registry.holding(duty.worker))
      yield Standing(
        duty.worker,
        holding.base.version,
        StandbyKeeper.isWhole(holding, duty),
        duty.bins.count(holding.has)
      )

  /** The workers whose standbys have no room. */
  private[runtime] def noRoom: Vector[WorkerId] = withoutRoom.asScala.toVector

  /** A batch has no room for its own state: drops all standbys that no task has come for. Returns
    * whether there were any.
    */
  def giveWay(): Boolean = {
    val dropped = registry.dropStandbys()
    dropped.foreach { worker => withoutRoom.add(worker); rests.rest(worker, GaveWayRest) }
    if (dropped.nonEmpty) {
      registry.budget.dropped()
      registry.measure()
      warn(
        s"Standbys were dropped, ${dropped.size} in all, for a batch had no room for its own " +
          "state. Give the executor more local disk, or its state more memory."
      )
    }
    dropped.nonEmpty
  }

  /** Forgets all workers that are not to be stood by for. */
  private[runtime] def keep(workers: Set[WorkerId]): Unit = {
    rests.keep(workers)
    withoutRoom.removeIf(!workers(_))
    ()
  }

  /** The standbys of a run to work on now, in order: those that have all bins, or the others. */
  def due(run: String, areWhole: Boolean): Vector[StandbyDuty] =
    orders().standbys.filter { duty =>
      def here = registry.holding(duty.worker)
      duty.worker.store.run == run && !rests.rests(duty.worker) &&
      !here.exists(StandbyKeeper.isCurrent(_, duty)) &&
      here.exists(StandbyKeeper.isWhole(_, duty)) == areWhole
    }

  /** Brings a run's standbys forward that have all bins, or makes the others slice by slice, until
    * there is nothing to do now, as the newest orders say. The two are work for two threads: those
    * that are whole keep up while others are made at the rate of the run. Returns whether there is
    * news for the driver. A standby that fails rests, and the others go on.
    */
  def keepAll(run: String, areWhole: Boolean): Boolean = {
    val done = mutable.Set.empty[(WorkerId, StateName)] // or a task has it, or it has failed
    @tailrec
    def go(hasNews: Boolean): Boolean =
      due(run, areWhole).find(duty => !done(duty.worker -> duty.settled)) match {
        case None => hasNews
        case Some(duty) =>
          val outcome = keepOne(duty)
          if (!outcome.contains(StandbyKeeper.Grown)) done += duty.worker -> duty.settled
          go(hasNews || registry.holding(duty.worker).exists(StandbyKeeper.isCurrent(_, duty)))
      }
    go(false)
  }

  /** Brings one standby to its settled name, and adds a slice. Returns what came of it; None if it
    * failed, and rests. Throws InterruptedException, and errors of the JVM.
    */
  def keepOne(duty: StandbyDuty): Option[StandbyKeeper.Outcome] =
    orders().runs.get(duty.worker.store.run).flatMap { run =>
      def recovery(read: Array[Byte] => Unit) =
        recoveryOf(duty.worker.store, run.checkpointRoot, read)
      def isLate = orders().standbys.exists { newest =>
        newest.worker == duty.worker &&
        newest.settled.version - duty.settled.version >= LateVersions
      }
      val loading = recovery { records =>
        throttle.pass(duty.worker.store.run, records.length.toLong, () => isLate)
      }
      try {
        faults.at(FaultPoints.StandbyKept)
        val keeper =
          new StandbyKeeper(registry, recovery(Recovery.Unchecked), loading, sliceBytes)
        val outcome = keeper(duty)
        if (outcome == StandbyKeeper.Whole) rests.succeeded(duty.worker)
        if (outcome != StandbyKeeper.Busy) withoutRoom.remove(duty.worker)
        Some(outcome)
      } catch {
        case e: InterruptedException => throw e
        case e: Throwable =>
          if (e.isInstanceOf[SpillException]) withoutRoom.add(duty.worker)
          registry.measure() // what was dropped frees its heap for batches at once
          if (rests.failed(duty.worker) == FailuresTold)
            warn(
              s"The standby of ${duty.worker} could not be kept $FailuresTold times in a row. If " +
                s"its executor is lost, its state is read from the checkpoint: $e"
            )
          if (e.isInstanceOf[Error]) throw e
          None
      }
    }
}

private object StandbyWork {

  /** Rounds of orders that a failed duty rests at most; they come once a second. */
  private val RestMax = 30L

  /** The worker's new versions after which a slice keeps to no rate: half of the batches after
    * which the driver gives an executor up that has not got a bin
    * ([[ReportedStandbys.StuckBatches]]).
    */
  private val LateVersions = ReportedStandbys.StuckBatches / 2

  /** Rounds that a standby rests that has given way: batches would fail for it again and again. */
  private val GaveWayRest = 300L
}
