// SPDX-License-Identifier: Apache-2.0
package io.megaphone.provider

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform

import io.megaphone.log.{BinLog, Record}
import io.megaphone.store.{Holding, MissingBinException, StoreKey}

/** Reads and writes one worker's bins as Spark's rows. One thread.
  *
  * A key is stored as the bytes of its row, with no copy on the way; or, where keys are asked for by their first columns, encoded for that.
  */
private[provider] final class BinnedRows(
    key: StoreKey,
    holding: Holding,
    binOf: BinOfKey,
    prefixed: Option[PrefixedKeys],
    keyFields: Int,
    valueFields: Int
) {
  private val family = if (prefixed.isEmpty) BinnedRows.Family else BinnedRows.OrderedFamily
  private val encoded = prefixed.orNull // asked for every row

  def get(row: UnsafeRow): UnsafeRow = {
    val log = logOf(binOf(row))
    if (encoded != null) { val k = encoded.bytesOf(row); find(log, k, 0, k.length) }
    else find(log, bytesOf(row), offsetOf(row), row.getSizeInBytes)
  }

  def put(row: UnsafeRow, value: UnsafeRow): Unit = {
    val bin = binOf(row)
    val log = logOf(bin)
    holding.touch(bin)
    if (encoded != null) { val k = encoded.bytesOf(row); log.put(family, k, 0, k.length, bytesOf(value), offsetOf(value), value.getSizeInBytes) }
    else log.put(family, bytesOf(row), offsetOf(row), row.getSizeInBytes, bytesOf(value), offsetOf(value), value.getSizeInBytes)
  }

  def remove(row: UnsafeRow): Unit = {
    val bin = binOf(row)
    val log = logOf(bin)
    holding.touch(bin)
    if (encoded != null) { val k = encoded.bytesOf(row); log.remove(family, k, 0, k.length) }
    else log.remove(family, bytesOf(row), offsetOf(row), row.getSizeInBytes)
    ()
  }

  /** The rows whose keys begin with these columns, which are the partition key: one bin has them all. As `iterator`. */
  def withPrefix(prefix: UnsafeRow): Iterator[UnsafeRowPair] = {
    if (encoded == null) throw StateStoreErrors.unsupportedOperationException("prefixScan", BinnedReads.Name)
    rowsOf(Iterator(logOf(binOf.ofPartitionKey(prefix)).prefix(family, encoded.bytesOfPrefix(prefix))))
  }

  /** All rows of the worker's bins, without those of bins that leave; the caller may put and remove meanwhile. The pair is reused, and so is a key that
    * was encoded.
    */
  def iterator(): Iterator[UnsafeRowPair] = rowsOf(holding.bins.filterNot(holding.leaving).map(holding.log(_).scan(family)))

  private def rowsOf(scans: Iterator[BinLog.Scan]): Iterator[UnsafeRowPair] = new Iterator[UnsafeRowPair] {
    private val pair = new UnsafeRowPair
    private var scan: BinLog.Scan = _
    private var isReady = false

    override def hasNext: Boolean = {
      while (!isReady && (scan != null || scans.hasNext)) {
        if (scan == null) scan = scans.next()
        if (scan.next()) isReady = true else scan = null
      }
      isReady
    }

    override def next(): UnsafeRowPair = {
      if (!hasNext) throw new NoSuchElementException
      isReady = false
      val c = scan.cursor
      val key = if (encoded != null) encoded.key(c.bytes, c.keyOffset, c.keyBytes) else row(c.bytes, c.keyOffset, c.keyBytes, keyFields)
      pair.withRows(key, row(c.bytes, c.valueOffset, c.valueBytes, valueFields))
    }
  }

  def keyCount: Long = holding.keyCount
  def heapBytes: Long = holding.heapBytes
  def binsOwned: Int = holding.bins.count(b => !holding.leaving(b))

  private def find(log: BinLog, bytes: Array[Byte], offset: Int, length: Int): UnsafeRow =
    if (log.find(family, bytes, offset, length)) row(log.cursor.bytes, log.cursor.valueOffset, log.cursor.valueBytes, valueFields) else null

  private def logOf(bin: Int): BinLog = {
    val log = holding.log(bin)
    if (log == null) throw new MissingBinException(key, holding.worker, bin) // I8: never an insert into a bin that is not there
    log
  }

  private def row(bytes: Array[Byte], offset: Int, length: Int, fields: Int): UnsafeRow = {
    val row = new UnsafeRow(fields)
    row.pointTo(bytes, (Platform.BYTE_ARRAY_OFFSET + offset).toLong, length)
    row
  }

  private def isOnHeap(row: UnsafeRow): Boolean = row.getBaseObject.isInstanceOf[Array[Byte]]
  private def offsetOf(row: UnsafeRow): Int = if (isOnHeap(row)) (row.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt else 0
  private def bytesOf(row: UnsafeRow): Array[Byte] = row.getBaseObject match { case b: Array[Byte] => b; case _ => row.getBytes }
}

private object BinnedRows {
  val Family = 0
  val OrderedFamily: Int = Record.OrderedFamilyMin
}

/** What is the same in both handles: reading, and the families that are not there yet. */
private[provider] trait BinnedReads extends ReadStateStore {
  protected def rows: BinnedRows
  protected def checkFamily(name: String): Unit =
    if (name != StateStore.DEFAULT_COL_FAMILY_NAME) throw StateStoreErrors.multipleColumnFamiliesNotSupported(BinnedReads.Name)

  override def get(key: UnsafeRow, colFamilyName: String): UnsafeRow = { checkFamily(colFamilyName); rows.get(key) }
  override def iterator(colFamilyName: String): StateStoreIterator[UnsafeRowPair] = { checkFamily(colFamilyName); new StateStoreIterator(rows.iterator()) }
  override def multiGet(keys: Array[UnsafeRow], colFamilyName: String): Iterator[UnsafeRow] = { checkFamily(colFamilyName); keys.iterator.map(rows.get) }
  override def keyExists(key: UnsafeRow, colFamilyName: String): Boolean = { checkFamily(colFamilyName); rows.get(key) != null }
  override def allColumnFamilyNames: Set[String] = Set(StateStore.DEFAULT_COL_FAMILY_NAME)

  override def valuesIterator(key: UnsafeRow, colFamilyName: String): Iterator[UnsafeRow] = unsupported("valuesIterator")
  override def prefixScan(prefixKey: UnsafeRow, colFamilyName: String): StateStoreIterator[UnsafeRowPair] = {
    checkFamily(colFamilyName)
    new StateStoreIterator(rows.withPrefix(prefixKey))
  }
  override def prefixScanWithMultiValues(prefixKey: UnsafeRow, colFamilyName: String): StateStoreIterator[UnsafeRowPair] = unsupported(
    "prefixScanWithMultiValues"
  )
  override def iteratorWithMultiValues(colFamilyName: String): StateStoreIterator[UnsafeRowPair] = unsupported("iteratorWithMultiValues")

  protected def unsupported(operation: String): Nothing = throw StateStoreErrors.unsupportedOperationException(operation, BinnedReads.Name)
}

private[provider] object BinnedReads {
  val Name = "BinnedStateStore"
}

/** The handle that an operator reads by. It owns no records: its late `abort` must not undo the commit of the handle that writes. */
private[provider] final class BinnedReadStore(override val id: StateStoreId, override val version: Long, protected val rows: BinnedRows)
    extends ReadStateStore
    with BinnedReads {
  override def abort(): Unit = ()
  override def release(): Unit = ()
}

/** The handle that an operator writes by. */
private[provider] final class BinnedStore(override val id: StateStoreId, override val version: Long, protected val rows: BinnedRows, session: WriteSession)
    extends StateStore
    with BinnedReads {
  private var phase = BinnedStore.Updating

  override def put(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit = {
    checkFamily(colFamilyName)
    require(value != null, "Cannot put a null value")
    verifyUpdating("put")
    session.checkRow(key, value)
    rows.put(key, value)
  }

  override def remove(key: UnsafeRow, colFamilyName: String): Unit = {
    checkFamily(colFamilyName)
    verifyUpdating("remove")
    rows.remove(key)
  }

  override def commit(): Long = {
    verifyUpdating("commit")
    try session.commit()
    catch { case e: Throwable => throw session.commitFailure(e) }
    phase = BinnedStore.Committed
    version + 1
  }

  override def abort(): Unit = if (phase == BinnedStore.Updating) { phase = BinnedStore.Aborted; session.abort() }
  override def release(): Unit = abort()
  override def hasCommitted: Boolean = phase == BinnedStore.Committed
  override def metrics: StateStoreMetrics = session.metrics(rows)
  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = session.checkpointInfo

  override def createColFamilyIfAbsent(
      name: String,
      keySchema: StructType,
      valueSchema: StructType,
      spec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit =
    throw StateStoreErrors.multipleColumnFamiliesNotSupported(BinnedReads.Name)
  override def removeColFamilyIfExists(name: String): Boolean = throw StateStoreErrors.removingColumnFamiliesNotSupported(BinnedReads.Name)
  override def putList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit = unsupported("putList")
  override def merge(key: UnsafeRow, value: UnsafeRow, colFamilyName: String): Unit = unsupported("merge")
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], colFamilyName: String): Unit = unsupported("mergeList")

  private def verifyUpdating(what: String): Unit =
    if (phase != BinnedStore.Updating) throw new IllegalStateException(s"Cannot $what after already committed or aborted")
}

private object BinnedStore {
  val Updating = 0
  val Committed = 1
  val Aborted = 2
}

/** Behind a writing handle of a reader: state that was loaded from files, of which nothing is ever written. */
private[provider] final class ReadOnlySession(id: StateStoreId) extends WriteSession {
  override def checkRow(key: UnsafeRow, value: UnsafeRow): Unit = refuse()
  override def commit(): Unit = refuse()
  override def abort(): Unit = ()
  override def commitFailure(cause: Throwable): Throwable = cause
  override def metrics(rows: BinnedRows): StateStoreMetrics = StateStoreMetrics(rows.keyCount, rows.heapBytes, Map.empty)
  override def checkpointInfo: StateStoreCheckpointInfo = refuse()

  private def refuse(): Nothing =
    throw new UnsupportedOperationException(s"The state $id was opened by a reader and cannot be written; only a batch of its own query writes it.")
}

/** What stands behind a writing handle. */
private[provider] trait WriteSession {
  def checkRow(key: UnsafeRow, value: UnsafeRow): Unit
  def commit(): Unit
  def abort(): Unit
  def commitFailure(cause: Throwable): Throwable
  def metrics(rows: BinnedRows): StateStoreMetrics
  def checkpointInfo: StateStoreCheckpointInfo
}
