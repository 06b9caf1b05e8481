// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.record.Words

/** Keys made to have a given hash: the log must tell them apart by their bytes alone. */
object Collisions {
  private val Multiplier = 0x9e3779b97f4a7c15L
  private val Inverse = {
    var x = Multiplier // five Newton steps double the number of right bits from three to sixty-four
    for (_ <- 0 until 5) x *= 2 - Multiplier * x
    x
  }

  private def mix(h: Long, word: Long): Long = { val x = (h ^ word) * Multiplier; x ^ (x >>> 29) }
  private def unmix(h: Long): Long = (h ^ (h >>> 29) ^ (h >>> 58)) * Inverse

  /** `start`, whose length is a multiple of eight, and eight bytes more, chosen such that the hash
    * of all is `hash`. Keys of other `salt` are others.
    */
  def key(hash: Int, start: Array[Byte], salt: Int): Array[Byte] = {
    val bytes = start ++ new Array[Byte](8)
    val before = (0 until start.length by 8).foldLeft(bytes.length * Multiplier)((h, i) =>
      mix(h, Words.get(start, i))
    )
    val after = ((hash.toLong << 32) | (salt & 0xffffffffL)) * Inverse
    Words.set(bytes, start.length, before ^ unmix(after))
    assert(Words.hash(bytes, 0, bytes.length) == hash, "this must follow Words.hash, word by word")
    bytes
  }
}
