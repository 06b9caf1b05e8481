// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import io.megaphone.checkpoint.planlog.LogRecord.Started

/** The start records, as far as they matter: a checkpoint may have been run a hundred thousand
  * times.
  *
  * @param furthest
  *   the furthest first batch of all of them but the last; -1 if there are none
  * @param retries
  *   how many runs have started from the batch of the newest seal since it was sealed
  */
final case class Starts(
    first: Option[Started],
    last: Option[Started],
    furthest: Long,
    retries: Int
) {

  /** Whether a run other than this one has started from a batch, or from one after it. */
  def isOtherFrom(run: String, batch: Long): Boolean =
    furthest >= batch || last.exists(s => s.run != run && s.firstBatch >= batch)

  /** How many runs in a row have replayed this sealed batch, without an end of it. */
  def retriesOf(batch: Long): Int = if (last.exists(_.firstBatch == batch)) retries else 0

  private[planlog] def +(r: Started): Starts = copy(
    first = first.orElse(Some(r)),
    last = Some(r),
    furthest = last.fold(furthest)(l => math.max(furthest, l.firstBatch))
  )

  /** Adds a run that finds its first batch sealed already. */
  private[planlog] def retrying(r: Started): Starts = {
    val isAgain = last.exists(_.firstBatch == r.firstBatch)
    (this + r).copy(retries = if (isAgain) retries + 1 else 1)
  }

  private[planlog] def uncounted: Starts = copy(retries = 0)
}

object Starts {
  val Empty: Starts = Starts(None, None, furthest = -1, retries = 0)
}
