// SPDX-License-Identifier: Apache-2.0
package io.megaphone.pace

/** The rate at which each executor may copy for a run. It follows the slowdown of the batches in
  * which copies are made.
  *
  * ''Given:'' what each batch took, and how much was copied meanwhile.
  *
  *   1. The slowdown is the median of the last five batches with copies, over the median of the
  *      last 33 quiet batches, minus 1. A batch is quiet if nothing is to be copied in it, or if
  *      copies are made at the lowest rate of all, which no batch can feel. A batch with a step
  *      counts for neither.
  *   1. Before there are three quiet batches, the rate is the lowest. Then it is 8 MiB a second,
  *      and its logarithm moves by a tenth of what is left of the allowed slowdown with each batch.
  *      The gain is small because a median of five batches answers three batches late: a larger one
  *      would overshoot, and most plans are over before it could be taken back.
  *   1. A batch in which the copies used less than half of the rate does not raise it: such a batch
  *      says nothing about a higher one.
  *
  * The measured batches are the run's own, so it does not see what copies cost other queries.
  *
  * @param bytesPerSecond
  *   the rate: bytes of records a second, on each executor, while it runs tasks
  */
final case class TransferRate private (
    settings: TransferRate.Settings,
    bytesPerSecond: Double,
    quietMs: Vector[Long],
    busyMs: Vector[Long]
) {
  import TransferRate._

  /** What executors are to keep to.
    *
    * @param bytesPerBatch
    *   how much has to be copied in the time of a quiet batch, whatever it costs, once it is known
    *   how long that is
    */
  def copyRate(bytesPerBatch: Long = 0): CopyRate = {
    val rate =
      if (settings.isFree) settings.maxBytesPerSecond.toDouble
      else if (isBlind) settings.bounded(0)
      else settings.bounded(math.max(bytesPerSecond, bytesPerBatch * 1000.0 / quietBatchMs))
    CopyRate(rate.toLong, settings.maxBytesPerSecond)
  }

  /** How many bytes are copied in the time of so many quiet batches, at this rate or at the one
    * that a run begins with, whichever is higher. Long.MaxValue if there is no limit, or if it is
    * not known yet how long such a batch is.
    */
  def bytesIn(batches: Int): Long = {
    val first = settings.bounded(FirstBytesPerSecond).toLong
    val rate = copyRate().besideTasks
    if (rate == 0 || isBlind) Long.MaxValue
    else (math.max(rate, first) / 1000.0 * quietBatchMs * batches).toLong
  }

  private def quietBatchMs = math.max(1, median(quietMs))
  private def isBlind = quietMs.size < QuietBatchesMin

  /** The rate after a batch. */
  def after(batch: Batch): TransferRate =
    if (batch.hasStep) this
    else {
      val isQuiet = batch.isQuiet(settings.bounded(0))
      val noted =
        if (isQuiet) copy(quietMs = (quietMs :+ batch.durationMs).takeRight(QuietBatches)) else this
      if (batch.copiedBytes == 0) noted
      else
        noted.copy(busyMs = (busyMs :+ batch.durationMs).takeRight(BusyBatches)).adapted(batch)
    }

  private def adapted(batch: Batch): TransferRate =
    if (settings.isFree || isBlind) this
    else {
      val slowdown = math.max(0, median(busyMs) / quietBatchMs - 1)
      val change = math.max(Lowest, Gain * (1 - slowdown / settings.slowdown))
      val usedMost = batch.copiedBytes >= bytesPerSecond * batch.durationMs / 1000 / 2
      val next = if (change > 0 && !usedMost) bytesPerSecond else bytesPerSecond * math.exp(change)
      copy(bytesPerSecond = settings.bounded(next))
    }
}

object TransferRate {

  /** @param slowdown
    *   how much slower batches may become while copies are made, as a share of what they take; 0:
    *   as much as the copies make them
    * @param maxBytesPerSecond
    *   the highest rate, also while no task runs; 0: no limit
    */
  final case class Settings(slowdown: Double = 0, maxBytesPerSecond: Long = 0) {

    /** What may be copied whatever it costs the batches. */
    def highest: CopyRate = CopyRate(maxBytesPerSecond, maxBytesPerSecond)
    private[pace] def isFree: Boolean = slowdown <= 0
    private[pace] def bounded(rate: Double): Double = {
      val most = if (maxBytesPerSecond > 0) maxBytesPerSecond.toDouble else MaxBytesPerSecond
      math.min(most, math.max(MinBytesPerSecond, rate))
    }
  }

  /** A batch that has ended.
    *
    * @param copiedBytes
    *   how many bytes were copied meanwhile, on the executor that copied most
    * @param hasStep
    *   whether bins moved in it, or copies kept to no rate
    * @param hasWork
    *   whether there was something to copy, whatever was copied
    */
  final case class Batch(
      durationMs: Long,
      copiedBytes: Long,
      hasStep: Boolean,
      hasWork: Boolean
  ) {
    private[pace] def isQuiet(lowestRate: Double): Boolean =
      !hasWork || copiedBytes > 0 && copiedBytes <= 1.5 * lowestRate * durationMs / 1000
  }

  /** The rate that a run begins with. */
  def apply(settings: Settings): TransferRate =
    TransferRate(settings, settings.bounded(FirstBytesPerSecond), Vector.empty, Vector.empty)

  private val FirstBytesPerSecond = (8 << 20).toDouble
  private val MinBytesPerSecond = (1 << 20).toDouble
  private val MaxBytesPerSecond = (1L << 40).toDouble // no machine copies faster
  private val QuietBatches = 33
  private val QuietBatchesMin = 3
  private val BusyBatches = 5
  private val Gain = 0.1
  private val Lowest = -0.7

  private def median(values: Vector[Long]): Double = {
    val sorted = values.sorted
    (sorted((sorted.size - 1) / 2) + sorted(sorted.size / 2)) / 2.0
  }
}
