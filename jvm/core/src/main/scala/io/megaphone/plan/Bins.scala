// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import io.megaphone.errors.InvalidPlanException

/** How a key's hash leads to its bin. Bins, not keys, are what moves between workers (Megaphone,
  * section 3.3, PVLDB 12(9)).
  *
  * Megaphone takes the high bits of a 64-bit hash. This takes the low bits of Spark's 32-bit one,
  * so the first table, round robin, puts a key where `hash & (workers - 1)` would. The exchange and
  * the state store both call it: they must agree on every key.
  */
object Bins {

  /** The most bins a query can have: the routing table keeps one 16-bit worker number a bin. */
  val Max: Int = 1 << 16

  /** The bin, from 0 to `bins - 1`, of any hash, a negative one too.
    *
    * @param bins
    *   how many there are: a power of two
    */
  def of(hash: Int, bins: Int): Int = hash & (bins - 1)

  /** Returns `bins` if a query can have that number: a power of two from 1 to `Max`. Throws
    * InvalidPlanException, BINS_NOT_POWER_OF_TWO.
    */
  def check(bins: Int): Int =
    if (bins < 1 || bins > Max || Integer.bitCount(bins) != 1)
      throw new InvalidPlanException.BinsNotPowerOfTwo(bins, Max)
    else bins
}
