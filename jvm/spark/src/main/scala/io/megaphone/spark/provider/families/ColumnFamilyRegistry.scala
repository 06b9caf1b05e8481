// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.streaming.state._

/** The column families of a store, by name. Any handle of a provider may create a family; it then
  * exists for all handles.
  *
  * Threads: any.
  *
  * @param default
  *   the default family, which always exists
  * @param areUsed
  *   whether the store may have other families
  */
private[provider] final class ColumnFamilyRegistry(
    val default: ColumnFamilySpec,
    areUsed: Boolean
) {
  private val byName = new ConcurrentHashMap[String, ColumnFamilySpec]()

  def all: Map[String, ColumnFamilySpec] = byName.asScala.toMap
  def names: Set[String] = byName.keySet.asScala.toSet + ColumnFamilyRegistry.Default

  /** Whether `spec` is what the family of this name was created with. */
  def isCurrent(name: String, spec: ColumnFamilySpec): Boolean = byName.get(name) eq spec

  /** The family that an operation names. Throws what Spark's own providers throw if it does not
    * exist.
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

  /** Creates a family. Called twice with one name: the second call does nothing. */
  def create(name: String, spec: ColumnFamilySpec): Unit = {
    check("create_col_family", name, spec.isInternal)
    if (name != ColumnFamilyRegistry.Default) byName.putIfAbsent(name, spec)
    ()
  }

  /** Removes a family; false if there was none. */
  def remove(name: String): Boolean = {
    check("remove_col_family", name, isInternal = false)
    byName.remove(name) != null
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
  private val NotUsed = "multiple column families is disabled in BinnedStateStore"
}
