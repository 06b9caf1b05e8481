// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.log.BinLog
import io.megaphone.state.Holding

/** How large the bins of one worker are in one store, after a commit. The arrays run in parallel.
  *
  * @param bins
  *   their numbers, ascending
  * @param keys
  *   live keys of each
  * @param bytes
  *   bytes of the live records of each
  * @param bytesWritten
  *   bytes of the records that the commit wrote to each
  * @param accesses
  *   how often a batch used each: the mean since they were counted last
  */
final case class BinSizes(
    bins: Array[Int],
    keys: Array[Long],
    bytes: Array[Long],
    bytesWritten: Array[Long],
    accesses: Array[Long]
)

object BinSizes {

  /** The sizes of the bins that stay with a holding, which has just committed. Accesses are counted
    * anew from here on.
    */
  def of(holding: Holding): BinSizes = {
    val bins = holding.bins.filterNot(holding.isLeaving).toArray
    def each(size: Int => Long) = bins.map(size)
    def ofLog(size: BinLog => Long) = each(holding.stateOf(_).here.fold(0L)(size))
    val version = holding.base.version
    val batches = if (holding.countedAt < 0) 1 else math.max(1, version - holding.countedAt)
    holding.countedAt = version
    BinSizes(
      bins,
      each(holding.stateOf(_).keyCount),
      each(holding.stateOf(_).liveBytes),
      ofLog(_.tailBytes),
      ofLog { log =>
        val mean = math.round(log.accesses.toDouble / batches)
        log.accesses = 0
        mean
      }
    )
  }
}

/** How large a bin is, over some stores. See [[BinSizes]]. */
final case class BinSize(keys: Long, bytes: Long, bytesWritten: Long, accesses: Long) {
  def +(other: BinSize): BinSize = BinSize(
    keys + other.keys,
    bytes + other.bytes,
    bytesWritten + other.bytesWritten,
    accesses + other.accesses
  )
}
