// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

/** The reading half of the handles of a task. A read may take in what is elsewhere, so a thread
  * that outlives its task may not read either.
  *
  * Threads: one at a time.
  */
private[provider] trait GuardedReads extends BinnedReads {
  val guard: TaskGuard
  private val taskThread = guard.taskThread // read for every row

  protected def isTask = Thread.currentThread eq taskThread

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

/** The handle through which a task reads. Spark calls its `abort` late, as that of a
  * [[BinnedReadStore]].
  *
  * Threads: one at a time.
  */
private[provider] final class GuardedReadStore(
    id: StateStoreId,
    version: Long,
    rows: BinnedRows,
    val guard: TaskGuard
) extends BinnedReadStore(id, version, rows)
    with GuardedReads
