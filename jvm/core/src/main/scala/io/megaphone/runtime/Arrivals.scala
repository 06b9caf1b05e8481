// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.pace.Clock
import io.megaphone.state.Traffic

/** The cost of opening a worker's state, and of bringing what its batch needed of incomplete bins:
  * counts of bins and bytes, by where they came from.
  *
  * Threads: one, until the batch is committed; it does not change after that.
  */
final class Arrivals(@transient private val clock: Clock = Clock.System) extends Serializable {
  var binsIn, binsRelabelled, binsFromPeer, binsFromCheckpoint: Int = 0
  var bytesFromPeer, bytesFromCheckpoint, waitNanos: Long = 0L

  /** Sub-bins of incomplete bins that came as the batch needed them. */
  var subBins: Int = 0

  /** Questions about them that the batch asked other executors: those asked at once share a round
    * trip.
    */
  var questions: Int = 0

  /** The worker's own bins that were read from files, as after the loss of its executor. */
  var binsRecovered: Int = 0
  def isRecovered: Boolean = binsRecovered > 0

  /** Whether the batch had something of bins come from elsewhere. What an incomplete bin lacked may
    * come from files, whole.
    */
  def isAny: Boolean = binsIn > 0 || subBins > 0 || binsFromCheckpoint > 0 || isRecovered

  /** Whether there is anything to tell: what an incomplete bin lacked may have come between the
    * batches, and an executor may have had a worker's state but for the newest batches.
    */
  def isNews: Boolean = isAny || bytesFromPeer > 0 || bytesFromCheckpoint > 0

  def waitMs: Long = waitNanos / 1000000L

  /** Counts what came for bins, now or before the batch. */
  private[runtime] def count(traffic: Traffic): Unit = {
    bytesFromPeer += traffic.fromPeer
    bytesFromCheckpoint += traffic.fromCheckpoint
  }

  private var isWaiting = false

  /** Runs `f`, and counts its time as waiting; once, if it is called within itself. */
  private[runtime] def waiting[A](f: => A): A =
    if (isWaiting) f
    else {
      val start = clock.nanoTime
      isWaiting = true
      try f
      finally { isWaiting = false; waitNanos += clock.nanoTime - start }
    }
}
