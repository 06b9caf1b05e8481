// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.megaphone.plan.Bins

/** Finds the bin of a state key: derives the partition key from it, and hashes that as Spark's
  * exchange does.
  *
  * Threads: one.
  */
private[provider] final class BinOfKey(
    partitionKey: PartitionKey,
    binsCount: Int,
    hashes: KeyHashes
) {
  private val extractor = partitionKey.extractor.orNull // read for every row
  private val hash = hashes.of(partitionKey.schema)

  def apply(key: UnsafeRow): Int = ofPartitionKey(
    if (extractor == null) key else extractor.partitionKey(key)
  )

  /** The bin of all keys that begin with these columns. Only if `isByPrefix`. */
  def ofPrefix(prefix: UnsafeRow): Int = partitionKey.prefix match {
    case PartitionKey.PrefixIsKey => ofPartitionKey(prefix)
    case PartitionKey.PrefixHasKey => ofPartitionKey(extractor.partitionKey(prefix))
    case PartitionKey.PrefixTellsNothing =>
      throw new IllegalStateException("Keys with the same prefix may be in any bin.")
  }

  /** Whether all keys with the same prefix are in the same bin. */
  def isByPrefix: Boolean = partitionKey.prefix != PartitionKey.PrefixTellsNothing

  private def ofPartitionKey(row: UnsafeRow): Int = Bins.of(hash(row).getInt(0), binsCount)
}
