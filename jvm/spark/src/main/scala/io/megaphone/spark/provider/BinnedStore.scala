// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

import io.megaphone.spark.provider.families.{ColumnFamily, ColumnFamilySpec}

/** The reading half, which both handles share. */
private[provider] trait BinnedReads extends ReadStateStore with RegistersFamilies {

  /** The family that an operation names. */
  protected def family(operation: String, name: String): ColumnFamily =
    rows.families(operation, name)

  override def get(key: UnsafeRow, colFamilyName: String): UnsafeRow =
    rows.get(family("get", colFamilyName), checked(key))
  override def keyExists(key: UnsafeRow, colFamilyName: String): Boolean =
    rows.has(family("keyExists", colFamilyName), checked(key))
  override def multiGet(keys: Array[UnsafeRow], colFamilyName: String): Iterator[UnsafeRow] = {
    val f = family("multiGet", colFamilyName)
    keys.foreach(checked)
    keys.iterator.map(rows.get(f, _))
  }
  override def valuesIterator(key: UnsafeRow, colFamilyName: String): Iterator[UnsafeRow] =
    rows.valuesOf(family("valuesIterator", colFamilyName), checked(key))

  override def iterator(colFamilyName: String): StateStoreIterator[UnsafeRowPair] = scan(
    rows.iterator(family("iterator", colFamilyName))
  )
  override def iteratorWithMultiValues(colFamilyName: String): StateStoreIterator[UnsafeRowPair] =
    scan(rows.iteratorOfMany(family("iteratorWithMultiValues", colFamilyName)))

  override def prefixScan(
      prefixKey: UnsafeRow,
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] =
    scan(rows.withPrefix(prefixed("prefixScan", colFamilyName), prefixKey))
  override def prefixScanWithMultiValues(
      prefixKey: UnsafeRow,
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] =
    scan(rows.manyWithPrefix(prefixed("prefixScanWithMultiValues", colFamilyName), prefixKey))

  override def rangeScan(
      startKey: Option[UnsafeRow],
      endKey: Option[UnsafeRow],
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] =
    scan(rows.range(ranged("rangeScan", colFamilyName), startKey, endKey))
  override def rangeScanWithMultiValues(
      startKey: Option[UnsafeRow],
      endKey: Option[UnsafeRow],
      colFamilyName: String
  ): StateStoreIterator[UnsafeRowPair] =
    scan(rows.rangeOfMany(ranged("rangeScanWithMultiValues", colFamilyName), startKey, endKey))

  override def allColumnFamilyNames: Set[String] = rows.families.created.names

  protected def checked(key: UnsafeRow): UnsafeRow =
    if (key == null) throw new IllegalStateException("Key cannot be null") else key

  private def scan(pairs: Iterator[UnsafeRowPair]) = new StateStoreIterator(pairs)
  private def prefixed(operation: String, name: String): ColumnFamily = {
    val f = family(operation, name)
    require(
      f.hasPrefix,
      s"$operation needs keys with a prefix, which those of column family $name have not."
    )
    f
  }
  private def ranged(operation: String, name: String): ColumnFamily = {
    val f = family(operation, name)
    require(
      f.hasRange,
      s"$operation needs keys in order, which those of column family $name are not."
    )
    f
  }
}

private[provider] object BinnedReads {
  val Name = "BinnedStateStore"
}

/** The handle through which an operator reads. Its `abort` does nothing: Spark calls it late, when
  * it must not undo the commit of the writing handle.
  *
  * Threads: one.
  */
private[provider] class BinnedReadStore(
    override val id: StateStoreId,
    override val version: Long,
    protected val rows: BinnedRows
) extends ReadStateStore
    with BinnedReads {
  override def abort(): Unit = ()
  override def release(): Unit = ()
}

/** The handle through which an operator writes.
  *
  * Threads: one. Called twice: `commit` throws IllegalStateException; `abort` and `release` do
  * nothing after a commit or an abort.
  */
private[provider] class BinnedStore(
    override val id: StateStoreId,
    override val version: Long,
    protected val rows: BinnedRows,
    session: WriteSession
) extends StateStore
    with BinnedReads {
  @volatile private var phase = BinnedStore.Updating

  /** The family to write to. Throws IllegalStateException after a commit or an abort. */
  private def open(operation: String, name: String): ColumnFamily = {
    checkOpen(operation)
    family(operation, name)
  }

  private def checkOpen(operation: String): Unit = {
    if (phase != BinnedStore.Updating)
      throw new IllegalStateException(s"Cannot $operation after already committed or aborted")
    session.checkWritable()
  }

  override def put(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit = {
    val f = open("put", colFamilyName)
    checkValue(value, "put")
    rows.put(f, checked(key), value)
  }

  override def putList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit =
    rows.putAll(open("put", colFamilyName), checked(key), checkedAll(values, "put"))

  override def merge(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit = {
    val f = open("merge", colFamilyName)
    checkValue(value, "merge")
    rows.merge(f, checked(key), Seq(value))
  }

  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit =
    rows.merge(open("merge", colFamilyName), checked(key), checkedAll(values, "merge"))

  override def remove(key: UnsafeRow, colFamilyName: String): Unit =
    rows.remove(open("remove", colFamilyName), checked(key))

  override def deleteRange(beginKey: UnsafeRow, endKey: UnsafeRow, colFamilyName: String): Unit = {
    val f = open("deleteRange", colFamilyName)
    if (!f.canDeleteRange)
      throw new IllegalStateException(
        "deleteRange requires a RangeKeyScanStateEncoderSpec for ordered key encoding"
      )
    rows.deleteRange(f, checked(beginKey), checked(endKey))
  }

  override def createColFamilyIfAbsent(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      spec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = rows.families.created
    .create(name, ColumnFamilySpec(spec, valueSchema, useMultipleValuesPerKey, isInternal))

  override def removeColFamilyIfExists(name: String): Boolean = {
    checkOpen("remove a column family")
    rows.removeFamily(name)
  }

  override def commit(): Long = {
    if (phase != BinnedStore.Updating)
      throw new IllegalStateException("Cannot commit after already committed or aborted")
    try session.commit()
    catch { case e: Throwable => throw session.commitFailure(e) }
    phase = BinnedStore.Committed
    version + 1
  }

  override def abort(): Unit =
    if (phase == BinnedStore.Updating) {
      phase = BinnedStore.Aborted
      session.abort()
    }
  override def release(): Unit = abort()
  override def hasCommitted: Boolean = phase == BinnedStore.Committed
  override def metrics: StateStoreMetrics = session.metrics(rows)
  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = session.checkpointInfo

  private def checkValue(value: UnsafeRow, operation: String): Unit =
    require(value != null, s"Cannot $operation a null value")
  private def checkedAll(values: Array[UnsafeRow], operation: String): Seq[UnsafeRow] = {
    require(values != null, s"Cannot $operation a null value")
    values.foreach(v => require(v != null, s"Cannot $operation a null value in the array"))
    values.toSeq
  }
}

private object BinnedStore {
  val Updating = 0
  val Committed = 1
  val Aborted = 2
}
