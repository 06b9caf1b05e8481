// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

/** Some of the bins that are read from files, at exactly one name. What is large is made slice by
  * slice, and brought forward by tails in between. So it may take any number of batches: only a
  * slice has to be read before tails do not lead on any more.
  */
private[megaphone] object Slice {

  /** About how many bytes of live records a slice has. */
  val Bytes: Long = 16L << 20

  /** The first slice of the bins that are lacked: one bin at least.
    *
    * @param liveBytes
    *   about how many bytes of live records all bins have
    * @param bins
    *   how many these are
    */
  def of(lacked: Vector[Int], liveBytes: Long, bins: Int, sliceBytes: Long): Vector[Int] = {
    val binBytes = math.max(1, liveBytes / math.max(1, bins))
    lacked.take(math.max(1, math.min(sliceBytes / binBytes, bins.toLong)).toInt)
  }
}
