// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util

/** The hashes of the keys that a task will need, as they become known: who sees the batch's rows on
  * their way adds them, and each store of the task reads them.
  *
  * Threads: any.
  */
final class Wanted {
  private var hashes = new Array[Int](16)
  private var count = 0

  def add(hash: Int): Unit = synchronized {
    if (count == hashes.length) hashes = util.Arrays.copyOf(hashes, 2 * count)
    hashes(count) = hash
    count += 1
  }

  /** Those that were added since there were `from`. */
  def since(from: Int): Array[Int] = synchronized(util.Arrays.copyOfRange(hashes, from, count))
}
