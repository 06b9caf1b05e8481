// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

/** The reading half of the handles of a task. A read may take in what is elsewhere, and remembers
  * what it read last, so a thread that outlives its task may not read either.
  *
  * Threads: one at a time.
  */
private[provider] trait GuardedReads extends BinnedReads {
  val guard: TaskGuard
  private val taskThread = guard.taskThread.orNull // read for every row

  protected def isTask = Thread.currentThread eq taskThread

  override def get(key: UnsafeRow, family: String): UnsafeRow =
    if (isTask) super.get(key, family) else guard.run(() => super.get(key, family))

  override def keyExists(key: UnsafeRow, family: String): Boolean =
    if (isTask) super.keyExists(key, family)
    else guard.run(() => super.keyExists(key, family))

  override def multiGet(keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] =
    guarded(() => super.multiGet(keys, family))

  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] =
    guarded(() => super.valuesIterator(key, family))

  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] =
    scanned(() => super.iterator(family))

  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] =
    scanned(() => super.iteratorWithMultiValues(family))

  override def prefixScan(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    scanned(() => super.prefixScan(prefix, family))

  override def prefixScanWithMultiValues(
      prefix: UnsafeRow,
      family: String
  ): StateStoreIterator[UnsafeRowPair] =
    scanned(() => super.prefixScanWithMultiValues(prefix, family))

  override def rangeScan(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] =
    scanned(() => super.rangeScan(start, end, family))

  override def rangeScanWithMultiValues(
      start: Option[UnsafeRow],
      end: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] =
    scanned(() => super.rangeScanWithMultiValues(start, end, family))

  private def scanned(scan: () => StateStoreIterator[UnsafeRowPair]) = {
    val pairs = guard.runOf(scan)
    new StateStoreIterator(each(pairs.iter), pairs.onClose)
  }

  private def guarded[A](rows: () => Iterator[A]): Iterator[A] =
    each(guard.runOf(rows))

  /** Who looks at the rows may be another thread than who asked for them: complete mode begins its
    * scan in the task's thread, and a thread that feeds a script may go on with it.
    */
  private def each[A](all: Iterator[A]): Iterator[A] = new Iterator[A] {
    override def hasNext: Boolean = if (isTask) all.hasNext else guard.run(() => all.hasNext)
    override def next(): A = if (isTask) all.next() else guard.run(() => all.next())
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
