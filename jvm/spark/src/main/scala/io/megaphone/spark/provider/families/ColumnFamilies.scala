// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.state._

import io.megaphone.plan.Operator
import io.megaphone.spark.provider.rows.RowChecksums

/** The column families of one task's handles, or of one reader's. One thread.
  *
  * A family's place is the plan log's: the same for all workers, and over all runs.
  *
  * @param schemas
  *   where rows are to be read by later schemas: those there are
  * @param checksums
  *   where rows have them
  */
private[provider] final class ColumnFamilies(
    val created: ColumnFamilyRegistry,
    val operator: Operator,
    store: String,
    binsCount: Int,
    schemas: Option[StateSchemaProvider],
    checksums: Option[RowChecksums]
) {
  private val hashes = new KeyHashes
  private val byName = mutable.HashMap.empty[String, ColumnFamily]
  val default: ColumnFamily = make(ColumnFamilyRegistry.Default, created.default)

  /** The family that an operation is about. Throws what Spark's own providers throw where there is
    * none.
    */
  def apply(operation: String, name: String): ColumnFamily =
    if (name == ColumnFamilyRegistry.Default) default
    else
      byName.getOrElse(
        name,
        { val f = make(name, created.get(operation, name)); byName(name) = f; f }
      )

  /** Whether those that were made are still kept as they were created. */
  def areAll(kinds: java.util.Map[String, ColumnFamilySpec]): Boolean = byName.forall {
    case (name, family) => kinds.get(name) eq family.kind
  }

  /** Numbers in the logs of the families that Spark keeps for itself. */
  def internalNumbers: Vector[Int] = created.all.collect {
    case (name, spec) if spec.isInternal => ColumnFamily.numberOf(placeOf(name), spec.keys)
  }.toVector

  /** Removes a family; gives its numbers in the logs, under one of which its rows are: also where
    * it was created in an earlier run only.
    */
  def remove(name: String): Seq[Int] = {
    byName.remove(name);
    if (operator.families.contains(name)) ColumnFamily.numbersOf(placeOf(name)) else Seq.empty
  }

  private def placeOf(name: String): Int =
    if (name == ColumnFamilyRegistry.Default) 0
    else {
      val place = operator.families.indexOf(name)
      if (place < 0)
        throw new IllegalStateException(
          s"Operator ${operator.id} asks for the column family '$name', but the plan log of its checkpoint knows only ${operator.families.mkString("'", "', '", "'")}: " +
            "this is an error of spark-megaphone; run the query on one of Spark's own state store providers, and report it."
        )
      place + 1
    }

  private def make(name: String, spec: ColumnFamilySpec): ColumnFamily = {
    val binOf = new BinOfKey(
      PartitionKey.of(operator.name, store, name, spec.keys, created.all.get(_).map(_.keys)),
      binsCount,
      hashes
    )
    ColumnFamily.of(name, placeOf(name), spec, schemas, checksums, binOf)
  }
}
