// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicReference

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.streaming.state._

import io.megaphone.plan.Operator

/** The column families of a store, by name: created by any handle of a provider, and from then on
  * there for all. Any thread.
  *
  * @param default
  *   the family that there is without being created
  * @param areUsed
  *   whether there may be others
  */
private[provider] final class ColumnFamilyRegistry(
    val default: ColumnFamilySpec,
    areUsed: Boolean
) {
  private val byName = new ConcurrentHashMap[String, ColumnFamilySpec]()
  private val spare = new AtomicReference[ColumnFamilies]

  /** What a task works with: what one before has given back, or else new. Encoders are code that
    * Spark generates, which takes longer than the rows of a small batch.
    */
  def take(operator: Operator, make: => ColumnFamilies): ColumnFamilies =
    Option(spare.getAndSet(null))
      .filter(f => f.operator == operator && f.areAll(byName))
      .getOrElse(make)

  /** Keeps them for a task to come: whoever gives them back uses them no more. */
  def giveBack(families: ColumnFamilies): Unit = spare.set(families)

  def all: Map[String, ColumnFamilySpec] = byName.asScala.toMap
  def names: Set[String] = byName.keySet.asScala.toSet + ColumnFamilyRegistry.Default

  /** The family that an operation is about. Throws what Spark's own providers throw where there is
    * none.
    */
  def get(operation: String, name: String): ColumnFamilySpec =
    if (name == ColumnFamilyRegistry.Default) default
    else if (!areUsed)
      throw StateStoreErrors.unsupportedOperationException(operation, ColumnFamilyRegistry.NotUsed)
    else {
      if (name.isEmpty || name.trim != name)
        throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
      Option(byName.get(name)).getOrElse(
        throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily(operation, name)
      )
    }

  /** Creates a family; nothing happens where there is one of that name. */
  def create(name: String, spec: ColumnFamilySpec): Unit = {
    check("create_col_family", name, spec.isInternal)
    if (name != ColumnFamilyRegistry.Default) byName.putIfAbsent(name, spec)
    ()
  }

  /** Whether there was such a family. */
  def remove(name: String): Boolean = {
    check("remove_col_family", name, isInternal = false); byName.remove(name) != null
  }

  private def check(operation: String, name: String, isInternal: Boolean): Unit = {
    if (!areUsed)
      throw StateStoreErrors.unsupportedOperationException(operation, ColumnFamilyRegistry.NotUsed)
    if (name.isEmpty || name.trim != name || (name == ColumnFamilyRegistry.Default && !isInternal))
      throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
    if (!isInternal && name.charAt(0) == '$')
      throw StateStoreErrors.cannotCreateColumnFamilyWithReservedChars(name)
  }
}

private object ColumnFamilyRegistry {
  val Default: String = StateStore.DEFAULT_COL_FAMILY_NAME
  private val NotUsed = "multiple column families is disabled in " + "BinnedStateStore"
}
