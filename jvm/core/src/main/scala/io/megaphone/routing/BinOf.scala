// SPDX-License-Identifier: Apache-2.0
package io.megaphone.routing

/**
 * The bin of a key hash: its low bits. Bins, not keys, are what moves between workers (Megaphone, section 3.3,
 * PVLDB 12(9)); Megaphone takes the high bits of a 64-bit hash, this takes the low bits of Spark's 32-bit one, so that
 * the first table, round robin, puts keys where `hash & (workers - 1)` would.
 *
 * @param bins
 *   how many bins there are: a power of two from 1 to [[BinOf.BinsMax]], fixed for the life of a checkpoint
 * @throws InvalidPlanException
 *   BINS_NOT_POWER_OF_TWO
 */
final case class BinOf(bins: Int) {
  if (bins < 1 || bins > BinOf.BinsMax || Integer.bitCount(bins) != 1)
    throw new InvalidPlanException.BinsNotPowerOfTwo(bins)

  /** The bin, from 0 to `bins - 1`, of any hash, a negative one too. */
  def apply(hash: Int): Int = hash & (bins - 1)
}

object BinOf {

  /** The most bins a query can have: the routing table keeps one 16-bit worker number a bin. */
  val BinsMax: Int = 1 << 16
}
