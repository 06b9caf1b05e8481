// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** The handle of a task's store. Operations of the task's own thread go straight to the store;
  * those of other threads go through the task's [[TaskGuard]].
  *
  * Threads: one at a time.
  */
private[provider] final class GuardedStore(
    id: StateStoreId,
    version: Long,
    rows: BinnedRows,
    session: WriteSession,
    val guard: TaskGuard
) extends BinnedStore(id, version, rows, session) {
  private val taskThread = guard.taskThread // read for every row

  private def isTask = Thread.currentThread eq taskThread

  /** Whether a scan needs no guard. One that will bring what is elsewhere does, whoever makes it:
    * its rows may be looked at by another thread, as by one that feeds them to a script.
    */
  private def isDirect = isTask && !rows.areIncomplete

  override def get(key: UnsafeRow, family: String): UnsafeRow =
    if (isTask) super.get(key, family) else guard.run(() => super.get(key, family))

  override def keyExists(key: UnsafeRow, family: String): Boolean =
    if (isTask) super.keyExists(key, family)
    else guard.run(() => super.keyExists(key, family))

  override def multiGet(keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] =
    if (isTask) super.multiGet(keys, family)
    else guarded(guard.run(() => super.multiGet(keys, family)))

  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] =
    if (isTask) super.valuesIterator(key, family)
    else guarded(guard.run(() => super.valuesIterator(key, family)))

  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] =
    if (isDirect) super.iterator(family) else scanned(() => super.iterator(family))

  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] =
    if (isDirect) super.iteratorWithMultiValues(family)
    else scanned(() => super.iteratorWithMultiValues(family))

  override def prefixScan(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    if (isDirect) super.prefixScan(prefix, family)
    else scanned(() => super.prefixScan(prefix, family))

  override def prefixScanWithMultiValues(
      prefix: UnsafeRow,
      family: String
  ): StateStoreIterator[UnsafeRowPair] =
    if (isDirect) super.prefixScanWithMultiValues(prefix, family)
    else scanned(() => super.prefixScanWithMultiValues(prefix, family))

  override def rangeScan(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] =
    if (isDirect) super.rangeScan(start, end, family)
    else scanned(() => super.rangeScan(start, end, family))

  override def rangeScanWithMultiValues(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] =
    if (isDirect) super.rangeScanWithMultiValues(start, end, family)
    else scanned(() => super.rangeScanWithMultiValues(start, end, family))

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
    if (isTask) create() else guard.run(() => create())
  }

  override def removeColFamilyIfExists(name: String): Boolean =
    if (isTask) super.removeColFamilyIfExists(name)
    else guard.run(() => super.removeColFamilyIfExists(name))

  override def commit(): Long =
    if (isTask) super.commit() else guard.run(() => super.commit())

  private def scanned(
      scan: () => StateStoreIterator[UnsafeRowPair]
  ): StateStoreIterator[UnsafeRowPair] = {
    val pairs = guard.run(scan)
    new StateStoreIterator(guarded(pairs.iter), pairs.onClose)
  }

  private def guarded[A](all: Iterator[A]): Iterator[A] = new Iterator[A] {
    override def hasNext: Boolean = guard.run(() => all.hasNext)
    override def next(): A = guard.run(() => all.next())
  }
}
