// SPDX-License-Identifier: Apache-2.0
package io.megaphone.provider

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.megaphone.RoutedPartitioning
import org.apache.spark.sql.types.StructType

/** The bin of a state key: the hash that Spark's exchange takes of the partition key that the state key leads to. One thread. */
private[provider] final class BinOfKey(partitionKey: PartitionKey, binsCount: Int, hashes: KeyHashes) {
  private val extractor = partitionKey.extractor.orNull // asked for every row
  private val hash = hashes.of(partitionKey.schema)

  def apply(key: UnsafeRow): Int = ofPartitionKey(if (extractor == null) key else extractor.partitionKey(key))

  /** The one bin of all keys that begin with these columns; -1 where they may be in any. */
  def ofPrefix(prefix: UnsafeRow): Int = partitionKey.prefix match {
    case PartitionKey.PrefixIsKey => ofPartitionKey(prefix)
    case PartitionKey.PrefixHasKey => ofPartitionKey(extractor.partitionKey(prefix))
    case PartitionKey.PrefixTellsNothing => -1
  }

  /** Whether keys that differ only behind their prefix have one bin. */
  def isByPrefix: Boolean = partitionKey.prefix != PartitionKey.PrefixTellsNothing

  private def ofPartitionKey(row: UnsafeRow): Int = hash(row).getInt(0) & (binsCount - 1)
}

/** Hashes of partition keys, as Spark generates code for them. One thread. */
private[provider] final class KeyHashes {
  private val byKey = mutable.HashMap.empty[StructType, UnsafeProjection]

  /** From a key of this schema to its hash, in the only column. */
  def of(key: StructType): UnsafeProjection = byKey.getOrElseUpdate(
    key, {
      val columns = key.fields.toSeq.zipWithIndex.map { case (f, i) => BoundReference(i, f.dataType, f.nullable) }
      UnsafeProjection.create(Seq(RoutedPartitioning.hashOf(HashPartitioning(columns, 1).partitionIdExpression)))
    }
  )
}
