// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import io.megaphone.log.record.Words

/** Makes keys of a given hash, which the log must distinguish by their bytes alone. */
object Collisions {
  private val Multiplier = 0x9e3779b97f4a7c15L
  private val Inverse = {
    var x = Multiplier // has three right bits; five Newton steps double them to all sixty-four
    for (_ <- 0 until 5) x *= 2 - Multiplier * x
    x
  }

  private def mix(h: Long, word: Long): Long = { val x = (h ^ word) * Multiplier; x ^ (x >>> 29) }
  private def unmix(h: Long): Long = (h ^ (h >>> 29) ^ (h >>> 58)) * Inverse

  /** Returns `start`, whose length must be a multiple of eight, followed by eight bytes such that
    * the hash of all is `hash`. Another `salt` makes another key.
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
