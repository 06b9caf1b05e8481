// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import io.megaphone.log.KeyReader

/** Decodes the keys of a store's logs.
  *
  * Threads: one.
  *
  * @param families
  *   of whom nobody else makes use
  */
private[provider] final class StoredKeyReader(families: ColumnFamilies) extends KeyReader {
  override def hashOf(family: Int, bytes: Array[Byte], keyOffset: Int, keyBytes: Int): Int = {
    val f = families.ofNumber(family)
    f.binOf.hashOf(f.keys.decode(bytes, keyOffset, keyBytes))
  }

  override def timeOf(family: Int, bytes: Array[Byte], keyOffset: Int, keyBytes: Int): Long =
    families.ofNumber(family).keys.decode(bytes, keyOffset, keyBytes).getLong(0)
}
