// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.partitioning

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, Pmod}
import org.apache.spark.sql.types.IntegerType

/** The hash of a row's keys that its bin is made of: the one in Spark's own partition id, whatever
  * it is, collations included.
  */
object PartitionHash {

  /** Throws IllegalStateException where Spark's partition id is no longer made of a hash in the
    * known way.
    */
  def of(partitionId: Expression): Expression = partitionId match {
    case Pmod(hash, Literal(_, IntegerType), _) => hash
    case other =>
      throw new IllegalStateException(
        s"Spark's partition id is not pmod(hash, partitions) any more but $other: this jar does not fit this Spark version."
      )
  }
}
