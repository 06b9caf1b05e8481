// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

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
  */
final case class BinSizes(
    bins: Array[Int],
    keys: Array[Long],
    bytes: Array[Long],
    bytesWritten: Array[Long]
)

object BinSizes {

  /** The sizes of the bins that stay with a holding, which has just committed. */
  def of(holding: Holding): BinSizes = {
    val bins = holding.bins.filterNot(holding.isLeaving).toArray
    def each(size: Int => Long) = bins.map(size)
    BinSizes(
      bins,
      each(holding.stateOf(_).keyCount),
      each(holding.stateOf(_).liveBytes),
      each(holding.stateOf(_).here.fold(0L)(_.tailBytes))
    )
  }
}

/** How large a bin is, over some stores. See [[BinSizes]]. */
final case class BinSize(keys: Long, bytes: Long, bytesWritten: Long) {
  def +(other: BinSize): BinSize =
    BinSize(keys + other.keys, bytes + other.bytes, bytesWritten + other.bytesWritten)
}
