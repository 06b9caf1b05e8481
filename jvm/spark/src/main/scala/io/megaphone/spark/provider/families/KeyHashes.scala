// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.types.StructType

import io.megaphone.spark.partitioning.PartitionHash

/** Hashes partition keys with code that Spark generates.
  *
  * Threads: one.
  */
private[provider] final class KeyHashes {
  private val byKey = mutable.HashMap.empty[StructType, UnsafeProjection]

  /** A projection from a key of this schema to a row whose only column is the key's hash. */
  def of(key: StructType): UnsafeProjection = byKey.getOrElseUpdate(
    key, {
      val columns = key.fields.toSeq.zipWithIndex.map { case (f, i) =>
        BoundReference(i, f.dataType, f.nullable)
      }
      UnsafeProjection.create(
        Seq(PartitionHash.of(HashPartitioning(columns, 1).partitionIdExpression))
      )
    }
  )
}
