// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.util.concurrent.atomic.AtomicLong

import scala.annotation.tailrec

import io.megaphone.checkpoint.{CatchUp, Recovery}
import io.megaphone.format.FileName
import io.megaphone.state.{Holding, Lease, Registry}

/** Keeps standbys: rule 26. A standby is the holding of a worker that runs elsewhere, in the slot
  * in which the worker's task would look for it. So a task that comes finds it and opens it as it
  * opens any holding (rule 11), and nothing is done to promote it.
  *
  * Given a duty: the worker, and its newest settled name.
  *   1. If the holding is at an older name, apply the tails in the worker's files, one under each
  *      lease: a task that comes waits for one tail at most, and only while its records go on
  *      coming. If none leads on, drop the holding. Bins that a step brought the worker from one
  *      that runs here are taken from that one's memory.
  *   1. If bins are missing, load a slice of them at exactly the name that the holding has, without
  *      the lease, and add it under the lease. The first slice gives the holding its name.
  *   1. Keep a tenth of the memory budget free for batches: spill the rest to disk.
  *
  * ''This executor dies:'' the driver gives the duty to another. ''The worker's executor dies:''
  * the worker's next task opens here, with all bins, some or none; it loads what is missing. ''A
  * task has the lease:'' it is left alone. ''No room:'' the holding is dropped, and SpillException
  * is thrown.
  *
  * A holding is given only names that are settled. So it is never ahead of what the driver
  * accepted.
  *
  * Threads: any; one call at a time for a worker.
  *
  * @param recovery
  *   reads tails
  * @param loading
  *   reads slices, at any pace
  * @param sliceBytes
  *   about how many bytes of live records a slice has
  */
final class StandbyKeeper(
    registry: Registry,
    recovery: Recovery,
    loading: Recovery,
    sliceBytes: Long = Slice.Bytes
) {
  import StandbyKeeper._

  private val applied = new AtomicLong // pieces of tails

  /** Works on one duty: brings the holding to the settled name, and adds one slice if bins are
    * missing. Throws what files throw, SpillException, and DetachedLeaseException if a task has
    * waited for too long.
    */
  def apply(duty: StandbyDuty): Outcome =
    if (!follow(duty)) Busy
    else {
      val here = registry.holding(duty.worker).filterNot(isEmpty)
      val lacked = here.fold(duty.bins)(holding => duty.bins.filterNot(holding.has))
      here match {
        // The worker ran here, and bins are incomplete: the next tail drops them.
        case Some(holding) if lacked.isEmpty => if (holding.areIncomplete) Busy else Whole
        case _ =>
          val slice = Slice.of(lacked, duty.liveBytes, duty.bins.size, sliceBytes)
          if (addSlice(duty, slice)) Grown else Busy
      }
    }

  /** Brings what there is to the settled name. Returns false if a task has the lease. */
  @tailrec
  private def follow(duty: StandbyDuty): Boolean = alone(duty) { lease =>
    val holding = lease.holding
    if (holding.head.contains(duty.settled)) holding.settle()
    val isThere = isEmpty(holding) || holding.base.version >= duty.settled.version
    val catchUp = new CatchUp(
      recovery,
      Preparer.TailsMax,
      registry.takeDeparted(duty.worker.store, _, _),
      () => { applied.incrementAndGet(); () }
    )
    if (!isThere && catchUp(holding, duty.settled, duty.tableHash, atOnce = 1).isEmpty)
      lease.renew()
    spill(holding)
    isThere || isEmpty(lease.holding) || holding.base == duty.settled
  } match {
    case None => false
    case Some(true) => true
    case Some(false) => follow(duty)
  }

  /** A piece at a time, so that no task waits for long. */
  private def spill(holding: Holding): Unit = {
    holding.spill(registry.budget.excessAtOnce)
    ()
  }

  /** Returns false if a task has the lease, or has taken the holding on meanwhile. */
  private def addSlice(duty: StandbyDuty, bins: Vector[Int]): Boolean = {
    val file = FileName(duty.worker.worker, duty.settled)
    val loaded = loading.load(file, bins, duty.tableHash)
    alone(duty) { lease =>
      if (isEmpty(lease.holding)) lease.renew().restart(duty.settled, loaded.lineage)
      val holding = lease.holding
      val fits = holding.base == duty.settled && holding.head.isEmpty
      if (fits) {
        loaded.bins.valuesIterator.filterNot(b => holding.has(b.bin)).foreach(holding.put)
        spill(holding)
      }
      fits
    }.contains(true)
  }

  /** Uses the holding with the lease. Returns None if a task has it. */
  private def alone[A](duty: StandbyDuty)(use: Lease => A): Option[A] = {
    registry
      .tryLease(duty.worker, duty.binsCount, registry.background(NoTask, () => applied.get))
      .map(lease => lease.forStandby(use(lease)))
  }
}

object StandbyKeeper {

  /** No task attempt has this id. */
  private val NoTask = -1L

  /** Whether a holding has never had a state from files, nor of a commit: that of a worker whose
    * first bins have just come has no lineage yet.
    */
  def isEmpty(holding: Holding): Boolean =
    holding.lineage.isEmpty && holding.head.isEmpty && holding.bins.isEmpty

  /** What came of a call. */
  sealed trait Outcome

  /** The standby has all bins, at the settled name. */
  case object Whole extends Outcome

  /** It has more bins than before. */
  case object Grown extends Outcome

  /** A task uses the holding. */
  case object Busy extends Outcome

  /** Whether a holding has all bins that a duty asks for, at whatever name. */
  def isWhole(holding: Holding, duty: StandbyDuty): Boolean =
    !isEmpty(holding) && !holding.areIncomplete && duty.bins.forall(holding.has)

  /** Whether it has them at the settled name, or at a later one. */
  def isCurrent(holding: Holding, duty: StandbyDuty): Boolean =
    holding.base.version >= duty.settled.version && isWhole(holding, duty)
}
