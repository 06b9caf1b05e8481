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

  def apply(key: UnsafeRow): Int = Bins.of(hashOf(key), binsCount)

  /** The hash of a key's partition key, as the exchange computes it. */
  def hashOf(key: UnsafeRow): Int = hashOfPartitionKey(
    if (extractor == null) key else extractor.partitionKey(key)
  )

  /** The bin of all keys that begin with these columns. Only if `isByPrefix`. */
  def ofPrefix(prefix: UnsafeRow): Int = Bins.of(hashOfPrefix(prefix), binsCount)

  /** The hash of the partition key that all keys with these first columns have. Only if
    * `isByPrefix`.
    */
  def hashOfPrefix(prefix: UnsafeRow): Int = partitionKey.prefix match {
    case PartitionKey.PrefixIsKey => hashOfPartitionKey(prefix)
    case PartitionKey.PrefixHasKey => hashOfPartitionKey(extractor.partitionKey(prefix))
    case PartitionKey.PrefixTellsNothing =>
      throw new IllegalStateException("Keys with the same prefix may be in any bin.")
  }

  /** Whether all keys with the same prefix are in the same bin. */
  def isByPrefix: Boolean = partitionKey.prefix != PartitionKey.PrefixTellsNothing

  private def hashOfPartitionKey(row: UnsafeRow): Int = hash(row).getInt(0)
}
