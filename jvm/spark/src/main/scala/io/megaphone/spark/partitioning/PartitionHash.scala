// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.partitioning

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, Pmod}
import org.apache.spark.sql.types.IntegerType

/** The hash of a row's keys from which its bin follows: the hash in Spark's own partition id,
  * collations included.
  */
object PartitionHash {

  /** The hash expression in a partition id. Throws IllegalStateException if the partition id does
    * not have the form pmod(hash, partitions).
    */
  def of(partitionId: Expression): Expression = partitionId match {
    case Pmod(hash, Literal(_, IntegerType), _) => hash
    case other =>
      throw new IllegalStateException(
        s"Spark's partition id is not pmod(hash, partitions) any more but $other: this jar does " +
          "not fit this Spark version."
      )
  }
}
