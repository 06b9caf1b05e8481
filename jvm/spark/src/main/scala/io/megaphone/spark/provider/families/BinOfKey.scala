// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.megaphone.plan.Bins

/** The bin of a state key: the hash that Spark's exchange takes of the partition key that the state
  * key leads to. One thread.
  */
private[provider] final class BinOfKey(
    partitionKey: PartitionKey,
    binsCount: Int,
    hashes: KeyHashes
) {
  private val extractor = partitionKey.extractor.orNull // asked for every row
  private val hash = hashes.of(partitionKey.schema)

  def apply(key: UnsafeRow): Int = ofPartitionKey(
    if (extractor == null) key else extractor.partitionKey(key)
  )

  /** The one bin of all keys that begin with these columns; -1 where they may be in any. */
  def ofPrefix(prefix: UnsafeRow): Int = partitionKey.prefix match {
    case PartitionKey.PrefixIsKey => ofPartitionKey(prefix)
    case PartitionKey.PrefixHasKey => ofPartitionKey(extractor.partitionKey(prefix))
    case PartitionKey.PrefixTellsNothing => -1
  }

  /** Whether keys that differ only behind their prefix have one bin. */
  def isByPrefix: Boolean = partitionKey.prefix != PartitionKey.PrefixTellsNothing

  private def ofPartitionKey(row: UnsafeRow): Int = Bins.of(hash(row).getInt(0), binsCount)
}
