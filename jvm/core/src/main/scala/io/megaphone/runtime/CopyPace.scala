// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable
import scala.math.Ordering.Implicits._

import io.megaphone.pace.{CopyRate, TransferRate}
import io.megaphone.plan.{RoutingTable, StepId}
import io.megaphone.protocol.{Announced, Protocol, StepBytes}
import io.megaphone.state.{Reached, ReplicaKey}
import io.megaphone.transfer.Slice

/** The rate of a run's copies, as the driver sees it: puts together what executors report and what
  * batches take. Reports may be lost, late or repeated: the rate then follows later.
  *
  *   1. `planned` notes whether a batch has a step, and whether there is something to copy in it,
  *      or to come to bins that are incomplete.
  *   1. `reported` and `besideTasks` take what an executor has copied, `batchEnded` what a batch
  *      took. What was reported between two ends belongs to the batch that ended; if several end in
  *      between, to the first.
  *   1. The rate is at least the one at which the busiest executor has copied its ends of all
  *      announced steps, and has loaded a slice of a standby, before tails cannot lead on any more:
  *      slower copies would be of no use. A step that moves more than `imageBytesMax` has no
  *      images. The rest of a step on demand takes as many batches at most, for until then each of
  *      them asks for keys. While an executor is about to go and has what others need (`hurries`),
  *      they keep to no rate but the highest, and what batches take says nothing.
  *
  * Threads: one at a time, as of its [[QueryRun]]; `copyRate` may be read by any.
  */
private[runtime] final class CopyPace(settings: TransferRate.Settings) {
  import CopyPace._

  @volatile private var rate = TransferRate(settings)
  @volatile private var announcedBytes = 0L // at the busiest executor, as of the rest
  @volatile private var restBytes = Map.empty[StepId, Long] // of steps on demand
  private var announced = Vector.empty[StepId]
  @volatile private var hasStandbysToMake = false
  @volatile private var isHurried = false
  private var wasHurried = false // since the last batch's end
  private val known = // by replica, end and executor: bytes
    mutable.Map.empty[(ReplicaKey, Boolean, String), Long]
  private val nearest = // by replica and executor: bins that lack, and versions behind, at best
    mutable.Map.empty[(ReplicaKey, String), (Int, Long)]
  private var newestBatch = -1L
  private val before = mutable.Map.empty[String, Long] // by executor: as of the last batch's end
  private val now = mutable.Map.empty[String, Long] // by executor
  private val batches = mutable.Map.empty[Long, Kind] // the newest ones
  private var live = Set.empty[StepId]

  def copyRate: CopyRate = {
    val sliceBytes = if (hasStandbysToMake) Slice.Bytes else 0
    if (isHurried) settings.highest
    else rate.copyRate(math.max(announcedBytes + restBytes.values.sum, sliceBytes) / UsefulBatches)
  }

  /** How many bytes of images batches bear in time: a step that has an executor send and take more
    * than that, with those that are announced already, has no images.
    */
  def imageBytesMax: Long = rate.bytesIn(ImageBatches)

  /** Whether copies are to be made as fast as can be, from now on. */
  def hurries(isSo: Boolean): Unit = { isHurried = isSo; wasHurried ||= isSo }

  /** A batch is planned, these steps may still be copied for, and standbys made. */
  def planned(
      decision: Protocol.Decision,
      liveSteps: Set[StepId],
      hasStandbysToMake: Boolean
  ): Unit = {
    val batch = decision.batch.number
    val hasWork = decision.announced.nonEmpty || decision.hasIncomplete || hasStandbysToMake
    this.hasStandbysToMake = hasStandbysToMake
    batches(batch) = Kind(decision.after != decision.before, hasWork)
    batches.filterInPlace((number, _) => number > batch - BatchesKept)
    live = liveSteps
    known.filterInPlace { case ((key, _, _), _) => key.purpose.isLive(live) }
    nearest.filterInPlace { case ((key, _), _) => key.purpose.isLive(live) }
    newestBatch = math.max(newestBatch, batch)
    def atBusiest(steps: Vector[Announced], tables: Map[Long, RoutingTable]) =
      StepBytes.atBusiest(decision.batch, steps, decision.before, tables)
    val steps = decision.announced.map(_.id)
    // What they are of changes little while they wait; a run's first batch does not know it.
    if (steps != announced || announcedBytes == 0)
      announcedBytes = atBusiest(decision.announced.filter(_.images.nonEmpty), decision.after)
    announced = steps
    val onDemand = decision.sealedSteps.filter(_.mode.isOnDemand)
    restBytes = restBytes.filter { case (step, _) => live(step) } ++
      onDemand.map(s => s.id -> atBusiest(Vector(s), decision.before))
  }

  /** An executor reports how much was copied for replicas, and which versions they have reached.
    * Returns whether that is more than it ever was there, or nearer to their sources, for steps
    * that still need it. On no executor it is more than the replica's bins have, and none can be
    * nearer than its source is. So progress ends.
    *
    * @param reached
    *   how far the replicas are that the executor is to have
    */
  def reported(
      executor: String,
      copied: Vector[Copied],
      reached: Vector[Reached]
  ): Boolean = {
    val grown = copied.filter(_.replica.purpose.isLive(live)).collect {
      case c if c.bytes > known.getOrElse((c.replica, c.isSource, executor), 0L) =>
        (c.replica, c.isSource, executor) -> c.bytes
    }
    known ++= grown
    val nearer = for {
      r <- reached if r.replica.purpose.isLive(live)
      far = (r.binsLacking, math.max(0, newestBatch - r.version))
      if nearest.get(r.replica -> executor).forall(far < _)
    } yield (r.replica -> executor) -> far
    nearest ++= nearer
    grown.nonEmpty || nearer.nonEmpty
  }

  /** An executor reports how much it has copied in all beside tasks. */
  def besideTasks(executor: String, bytes: Long): Unit = now(executor) = bytes

  /** A batch has ended. One that was not planned here does not count. */
  def batchEnded(batch: Long, durationMs: Long): Unit = {
    val most = now.iterator
      .map { case (executor, bytes) => bytes - before.getOrElse(executor, 0L) }
      .maxOption
      .getOrElse(0L)
    before ++= now
    batches.remove(batch).foreach { kind =>
      val isOfNoRate = kind.hasStep || wasHurried
      rate = rate.after(TransferRate.Batch(durationMs, math.max(0, most), isOfNoRate, kind.hasWork))
    }
    wasHurried = isHurried
  }
}

private object CopyPace {
  private final case class Kind(hasStep: Boolean, hasWork: Boolean)
  private val BatchesKept = 16L

  /** Images are published and pulled in this number of batches, so that tails lead on from them:
    * see [[io.megaphone.transfer.Preparer.TailsMax]].
    */
  private val UsefulBatches = 64

  /** Images are published if they need no more batches at the rate of the moment: so they do not
    * need a higher rate at once.
    */
  private val ImageBatches = 48
}
