// SPDX-License-Identifier: Apache-2.0
package io.megaphone.provider

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicReference

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

import io.megaphone.protocol.Operator

/** What a column family was created with. */
private[provider] final case class FamilyKind(keys: KeyStateEncoderSpec, values: StructType, isMultiValued: Boolean, isInternal: Boolean)

/** The column families of a store, by name: created by any handle of a provider, and from then on there for all. Any thread.
  *
  * @param default
  *   the family that there is without being created
  * @param areUsed
  *   whether there may be others
  */
private[provider] final class CreatedFamilies(val default: FamilyKind, areUsed: Boolean) {
  private val byName = new ConcurrentHashMap[String, FamilyKind]()
  private val spare = new AtomicReference[Families]

  /** What a task works with: what one before has given back, or else new. Encoders are code that Spark generates, which takes longer than the rows of a small
    * batch.
    */
  def take(operator: Operator, make: => Families): Families =
    Option(spare.getAndSet(null)).filter(f => f.operator == operator && f.areAll(byName)).getOrElse(make)

  /** Keeps them for a task to come: whoever gives them back uses them no more. */
  def giveBack(families: Families): Unit = spare.set(families)

  def all: Map[String, FamilyKind] = byName.asScala.toMap
  def names: Set[String] = byName.keySet.asScala.toSet + CreatedFamilies.Default

  /** The family that an operation is about. Throws what Spark's own providers throw where there is none. */
  def get(operation: String, name: String): FamilyKind =
    if (name == CreatedFamilies.Default) default
    else if (!areUsed) throw StateStoreErrors.unsupportedOperationException(operation, CreatedFamilies.NotUsed)
    else {
      if (name.isEmpty || name.trim != name) throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
      Option(byName.get(name)).getOrElse(throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily(operation, name))
    }

  /** Creates a family; nothing happens where there is one of that name. */
  def create(name: String, spec: FamilyKind): Unit = {
    check("create_col_family", name, spec.isInternal)
    if (name != CreatedFamilies.Default) byName.putIfAbsent(name, spec)
    ()
  }

  /** Whether there was such a family. */
  def remove(name: String): Boolean = { check("remove_col_family", name, isInternal = false); byName.remove(name) != null }

  private def check(operation: String, name: String, isInternal: Boolean): Unit = {
    if (!areUsed) throw StateStoreErrors.unsupportedOperationException(operation, CreatedFamilies.NotUsed)
    if (name.isEmpty || name.trim != name || (name == CreatedFamilies.Default && !isInternal))
      throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
    if (!isInternal && name.charAt(0) == '$') throw StateStoreErrors.cannotCreateColumnFamilyWithReservedChars(name)
  }
}

private object CreatedFamilies {
  val Default: String = StateStore.DEFAULT_COL_FAMILY_NAME
  private val NotUsed = "multiple column families is disabled in " + BinnedReads.Name
}

/** The column families of one task's handles, or of one reader's. One thread.
  *
  * A family's place is the plan log's: the same for all workers, and over all runs.
  *
  * @param schemas
  *   where rows are to be read by later schemas: those there are
  * @param checksums
  *   where rows have them
  */
private[provider] final class Families(
    val created: CreatedFamilies,
    val operator: Operator,
    store: String,
    binsCount: Int,
    schemas: Option[StateSchemaProvider],
    checksums: Option[RowChecksums]
) {
  private val hashes = new KeyHashes
  private val byName = mutable.HashMap.empty[String, Family]
  val default: Family = make(CreatedFamilies.Default, created.default)

  /** The family that an operation is about. Throws what Spark's own providers throw where there is none. */
  def apply(operation: String, name: String): Family =
    if (name == CreatedFamilies.Default) default
    else byName.getOrElse(name, { val f = make(name, created.get(operation, name)); byName(name) = f; f })

  /** Whether those that were made are still kept as they were created. */
  def areAll(kinds: java.util.Map[String, FamilyKind]): Boolean = byName.forall { case (name, family) => kinds.get(name) eq family.kind }

  /** Numbers in the logs of the families that Spark keeps for itself. */
  def internalNumbers: Vector[Int] = created.all.collect { case (name, spec) if spec.isInternal => Family.numberOf(placeOf(name), spec.keys) }.toVector

  /** Removes a family; gives its numbers in the logs, under one of which its rows are: also where it was created in an earlier run only. */
  def remove(name: String): Seq[Int] = { byName.remove(name); if (operator.families.contains(name)) Family.numbersOf(placeOf(name)) else Seq.empty }

  private def placeOf(name: String): Int =
    if (name == CreatedFamilies.Default) 0
    else {
      val place = operator.families.indexOf(name)
      if (place < 0)
        throw new IllegalStateException(
          s"Operator ${operator.id} asks for the column family '$name', but the plan log of its checkpoint knows only ${operator.families.mkString("'", "', '", "'")}: " +
            "this is an error of spark-megaphone; run the query on one of Spark's own state store providers, and report it."
        )
      place + 1
    }

  private def make(name: String, spec: FamilyKind): Family = {
    val binOf = new BinOfKey(PartitionKey.of(operator.name, store, name, spec.keys, created.all.get(_).map(_.keys)), binsCount, hashes)
    Family.of(name, placeOf(name), spec, schemas, checksums, binOf)
  }
}
