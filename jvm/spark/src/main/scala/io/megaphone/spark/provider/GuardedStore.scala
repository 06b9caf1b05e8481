// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** The handle through which a task writes. Operations of the task's own thread go straight to the
  * store; those of other threads go through the task's [[TaskGuard]].
  *
  * Threads: one at a time.
  */
private[provider] final class GuardedStore(
    id: StateStoreId,
    version: Long,
    rows: BinnedRows,
    session: WriteSession,
    val guard: TaskGuard
) extends BinnedStore(id, version, rows, session)
    with GuardedReads {
  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit =
    if (isTask) super.put(key, value, family)
    else guard.run(() => super.put(key, value, family))

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    if (isTask) super.putList(key, values, family)
    else guard.run(() => super.putList(key, values, family))

  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit =
    if (isTask) super.merge(key, value, family)
    else guard.run(() => super.merge(key, value, family))

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    if (isTask) super.mergeList(key, values, family)
    else guard.run(() => super.mergeList(key, values, family))

  override def remove(key: UnsafeRow, family: String): Unit =
    if (isTask) super.remove(key, family) else guard.run(() => super.remove(key, family))

  override def deleteRange(begin: UnsafeRow, end: UnsafeRow, family: String): Unit =
    if (isTask) super.deleteRange(begin, end, family)
    else guard.run(() => super.deleteRange(begin, end, family))

  override def createColFamilyIfAbsent(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      spec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = {
    def create(): Unit = super.createColFamilyIfAbsent(
      name,
      keySchema,
      valueSchema,
      spec,
      useMultipleValuesPerKey,
      isInternal
    )
    guard.runOf(() => create())
  }

  override def removeColFamilyIfExists(name: String): Boolean =
    guard.runOf(() => super.removeColFamilyIfExists(name))

  override def commit(): Long =
    guard.runOf(() => super.commit())
}
