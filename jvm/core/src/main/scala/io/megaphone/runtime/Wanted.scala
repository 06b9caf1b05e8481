// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util

import io.megaphone.state.IntSet

/** The hashes of the keys that a task will need, as they become known: who sees the batch's rows on
  * their way adds them, and each store of the task reads them.
  *
  * Threads: any.
  *
  * @param max
  *   how many are noted at most. Of a bin that has others, all is brought at once
  */
final class Wanted(max: Int = Wanted.Max) {
  private val known = new IntSet
  private var hashes = new Array[Int](16)

  /** Adds a hash, unless it is known or there is no room. */
  def add(hash: Int): Unit = synchronized {
    val count = known.size
    if (count < max && known.add(hash)) {
      if (count == hashes.length) hashes = util.Arrays.copyOf(hashes, 2 * count)
      hashes(count) = hash
    }
  }

  /** Those that were added since there were `from`. */
  def since(from: Int): Array[Int] = synchronized(util.Arrays.copyOfRange(hashes, from, known.size))

  /** Whether there may be others, which are not noted. */
  def isFull: Boolean = synchronized(known.size >= max)
}

private object Wanted {
  val Max = 1 << 20
}
