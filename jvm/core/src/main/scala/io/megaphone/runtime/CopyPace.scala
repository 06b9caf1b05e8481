// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.pace.{CopyRate, TransferRate}
import io.megaphone.plan.StepId
import io.megaphone.protocol.Protocol
import io.megaphone.state.ReplicaKey

/** The rate of a run's copies, as the driver sees it: puts together what executors report and what
  * batches take. Reports may be lost, late or repeated: the rate then follows later.
  *
  * Threads: one at a time, as of its [[QueryRun]]; `copyRate` may be read by any.
  */
private[runtime] final class CopyPace(settings: TransferRate.Settings) {
  @volatile private var rate = TransferRate(settings)
  private val known = mutable.Map.empty[(String, ReplicaKey), Long] // by executor: bytes copied
  private val sinceBatch = mutable.Map.empty[String, Long].withDefaultValue(0L) // by executor
  private val withStep = mutable.Set.empty[Long] // of the newest batches
  private var live = Set.empty[StepId]

  def copyRate: CopyRate = rate.copyRate

  /** A batch is planned, and these steps may still be copied for. */
  def planned(decision: Protocol.Decision, liveSteps: Set[StepId]): Unit = {
    val batch = decision.batch.number
    if (decision.sealedSteps.nonEmpty) withStep += batch
    withStep.filterInPlace(_ > batch - CopyPace.BatchesKept)
    live = liveSteps
    known.filterInPlace { case ((_, key), _) => key.purpose.isLive(live) }
  }

  /** An executor reports what it has copied. Returns whether that is more than it ever was, for
    * steps that still need it. What is said of a replica grows up to the size of its image at most,
    * so progress ends.
    */
  def copied(executor: String, copied: Vector[(ReplicaKey, Long)]): Boolean = {
    val grown = copied.iterator
      .filter { case (key, _) => key.purpose.isLive(live) }
      .map { case (key, bytes) =>
        val before = known.getOrElse((executor, key), 0L)
        if (bytes > before) known((executor, key)) = bytes
        math.max(0, bytes - before)
      }
      .sum
    sinceBatch(executor) += grown
    grown > 0
  }

  /** A batch has ended. */
  def batchEnded(batch: Long, durationMs: Long): Unit = {
    val most = sinceBatch.valuesIterator.maxOption.getOrElse(0L)
    sinceBatch.clear()
    rate = rate.after(TransferRate.Batch(durationMs, most, withStep(batch)))
  }
}

private object CopyPace {
  private val BatchesKept = 16L
}
