// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import io.megaphone.log.KeyHash

/** Decodes the keys of a store's logs to find the hashes of their partition keys.
  *
  * Threads: one.
  *
  * @param families
  *   of whom nobody else makes use
  */
private[provider] final class StoredKeyHash(families: ColumnFamilies) extends KeyHash {
  override def apply(family: Int, bytes: Array[Byte], keyOffset: Int, keyBytes: Int): Int = {
    val f = families.ofNumber(family)
    f.binOf.hashOf(f.keys.decode(bytes, keyOffset, keyBytes))
  }
}
