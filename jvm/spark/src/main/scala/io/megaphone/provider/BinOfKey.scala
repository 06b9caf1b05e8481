// SPDX-License-Identifier: Apache-2.0
package io.megaphone.provider

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory
import org.apache.spark.sql.megaphone.RoutedPartitioning
import org.apache.spark.sql.types.StructType

/** The bin of a state key: the hash that Spark's exchange takes of the partition key that the state key leads to. One thread.
  *
  * @param operator
  *   Spark's name of the operator, which says how a state key leads to a partition key
  * @param store
  *   the name of the store: a join's stores have keys of different kinds
  */
final class BinOfKey(operator: String, store: String, keySchema: StructType, binsCount: Int) {
  private val extractor =
    if (BinOfKey.WholeKey(operator)) None
    else Some(StatePartitionKeyExtractorFactory.create(operator, keySchema, storeName = store, stateFormatVersion = Some(BinOfKey.NamedStoresFormat)))
  private val hash = {
    val schema = extractor.fold(keySchema)(_.partitionKeySchema)
    val columns = schema.fields.toSeq.zipWithIndex.map { case (f, i) => BoundReference(i, f.dataType, f.nullable) }
    UnsafeProjection.create(Seq(RoutedPartitioning.hashOf(HashPartitioning(columns, 1).partitionIdExpression)))
  }

  def apply(key: UnsafeRow): Int = ofPartitionKey(extractor.fold(key)(_.partitionKey(key)))

  /** The bin of a partition key: what the keys of one prefix have in common, where keys have a prefix. */
  def ofPartitionKey(row: UnsafeRow): Int = hash(row).getInt(0) & (binsCount - 1)
}

object BinOfKey {

  /** A join's state format that keeps stores by name; format 1 does as well, with the same keys. */
  private val NamedStoresFormat = 2

  /** Operators that keep their state by the whole partition key. */
  private val WholeKey = Set("stateStoreSave", "dedupe", "dedupeWithinWatermark", "flatMapGroupsWithState", "applyInPandasWithState", "globalLimit")
}
