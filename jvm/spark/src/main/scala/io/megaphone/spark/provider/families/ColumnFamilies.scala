// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.state._

import io.megaphone.log.record.Record
import io.megaphone.plan.Operator
import io.megaphone.spark.provider.rows.RowChecksums

/** The column families that the handles of one task, or of one reader, use.
  *
  * A family's place comes from the plan log: it is the same on all workers and in all runs.
  *
  * Threads: one.
  *
  * @param schemas
  *   the known schemas, if schema evolution is on
  * @param checksums
  *   if rows have checksums
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
  private val byNumber = mutable.LongMap.empty[ColumnFamily]
  val default: ColumnFamily = make(ColumnFamilyRegistry.Default, created.default)

  /** The family that an operation names. Throws what Spark's own providers throw if it does not
    * exist.
    */
  def apply(operation: String, name: String): ColumnFamily =
    if (name == ColumnFamilyRegistry.Default) default
    else
      byName.getOrElse(
        name, {
          val f = make(name, created.get(operation, name))
          byName(name) = f
          f
        }
      )

  /** The family of this number in the logs. Throws NoSuchElementException if no handle of the store
    * has registered it yet.
    */
  def ofNumber(number: Int): ColumnFamily =
    byNumber.getOrElse(number.toLong, addedOf(number))

  private def addedOf(number: Int): ColumnFamily = {
    def unknown = throw new NoSuchElementException(s"$store has no column family $number")
    val place = number % Record.OrderedFamilyMin
    val family =
      if (place == 0) default
      else {
        val name = operator.families.lift(place - 1).getOrElse(unknown)
        byName.getOrElseUpdate(name, make(name, created.all.getOrElse(name, unknown)))
      }
    if (family.number != number) unknown
    byNumber(number.toLong) = family
    family
  }

  /** Whether the families used so far are still registered with the spec they were made from. */
  def areCurrent: Boolean = byName.forall { case (name, family) =>
    created.isCurrent(name, family.kind)
  }

  /** The log numbers of Spark's internal families. */
  def internalNumbers: Vector[Int] = created.all.collect {
    case (name, spec) if spec.isInternal => ColumnFamily.numberOf(placeOf(name), spec.keys)
  }.toVector

  /** Removes a family and returns the numbers its records may carry in the logs, even if only an
    * earlier run created it.
    */
  def remove(name: String): Seq[Int] = {
    byName.remove(name).foreach(byNumber -= _.number.toLong)
    if (operator.families.contains(name)) ColumnFamily.numbersOf(placeOf(name)) else Seq.empty
  }

  private def placeOf(name: String): Int =
    if (name == ColumnFamilyRegistry.Default) 0
    else {
      val place = operator.families.indexOf(name)
      if (place < 0)
        throw new IllegalStateException(
          s"Operator ${operator.id} asks for the column family '$name', but the plan log of its " +
            s"checkpoint knows only ${operator.families.mkString("'", "', '", "'")}: this is an " +
            "error of spark-megaphone; run the query on one of Spark's own state store providers," +
            " and report it."
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
