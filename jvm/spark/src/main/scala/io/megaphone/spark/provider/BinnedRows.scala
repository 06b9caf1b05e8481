// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair

import io.megaphone.errors.MissingBinException
import io.megaphone.format.StoreKey
import io.megaphone.log.{BinLog, Due, MergedScan}
import io.megaphone.log.Scan
import io.megaphone.log.record.Cursor
import io.megaphone.plan.{Bins, RoutingTable}
import io.megaphone.runtime.Fetcher
import io.megaphone.spark.provider.families.{ColumnFamilies, ColumnFamily}
import io.megaphone.spark.provider.rows.MultiValueCodec
import io.megaphone.state.Holding

/** Reads and writes one worker's bins as Spark's rows. Throws MissingBinException for a key whose
  * bin the holding does not have (I8).
  *
  * Threads: one.
  *
  * @param fetcher
  *   brings what is elsewhere of incomplete bins; null if all are complete
  * @param dueOf
  *   by scanned family: what the operator looks for when it looks at all rows
  * @param table
  *   by which the rows of a batch were routed
  */
private[provider] final class BinnedRows(
    key: StoreKey,
    holding: Holding,
    val families: ColumnFamilies,
    fetcher: Fetcher = null,
    dueOf: String => Option[DueRows] = _ => None,
    table: Option[RoutingTable] = None
) {
  private val cursor = new Cursor // at the record found last

  def get(f: ColumnFamily, row: UnsafeRow): UnsafeRow =
    if (find(f, row)) valueAt(f, cursor) else null

  def has(f: ColumnFamily, row: UnsafeRow): Boolean =
    logOfKey(f, row).has(f.number, f.keys.bytes, f.keys.offset, f.keys.length)

  /** All values of a key in a multi-valued family. */
  def valuesOf(f: ColumnFamily, row: UnsafeRow): Iterator[UnsafeRow] = {
    val many = f.many
    if (find(f, row)) manyAt(many, cursor) else Iterator.empty
  }

  def put(f: ColumnFamily, row: UnsafeRow, value: UnsafeRow): Unit = {
    f.keys.encode(row)
    f.values.encode(value)
    writeEncoded(f, row, isAppend = false)
  }

  /** Replaces the values of a key. */
  def putAll(f: ColumnFamily, row: UnsafeRow, values: Iterable[UnsafeRow]): Unit = {
    val many = f.many
    f.keys.encode(row)
    many.encodeAll(values)
    writeEncoded(f, row, isAppend = false)
  }

  /** Appends to the values of a key. */
  def merge(f: ColumnFamily, row: UnsafeRow, values: Iterable[UnsafeRow]): Unit = {
    val many = f.many
    f.keys.encode(row)
    many.encodeAll(values)
    writeEncoded(f, row, isAppend = true)
  }

  def remove(f: ColumnFamily, row: UnsafeRow): Unit = {
    val log = logToWrite(bring(f.binOf.hashOf(row)))
    val keys = f.keys
    keys.encode(row)
    log.remove(f.number, keys.bytes, keys.offset, keys.length)
    ()
  }

  /** Whether some of the worker's rows are elsewhere. */
  def areIncomplete: Boolean = holding.areIncomplete

  /** All rows of the worker's bins, except of bins that leave. The caller may put and remove while
    * it iterates. The pair is reused, and so are rows that an encoding codec decodes.
    */
  def iterator(f: ColumnFamily): Iterator[UnsafeRowPair] = rowsOf(f, scansOf(f))

  /** Some row of the default family, of those that are here. */
  def first: Option[UnsafeRowPair] =
    rowsOf(families.default, logs.map(_.scan(families.default.number))).nextOption()

  /** The rows whose keys begin with these columns; otherwise as `iterator`. */
  def withPrefix(f: ColumnFamily, prefix: UnsafeRow): Iterator[UnsafeRowPair] =
    rowsOf(f, scansOfPrefix(f, prefix))

  /** The rows from the first key (inclusive) to the second (exclusive), in order; otherwise as
    * `iterator`.
    */
  def range(
      f: ColumnFamily,
      from: Option[UnsafeRow],
      until: Option[UnsafeRow]
  ): Iterator[UnsafeRowPair] = rowsOf(f, scansOfRange(f, from, until))

  /** The rows of a multi-valued family: one pair for each value. */
  def iteratorOfMany(f: ColumnFamily): Iterator[UnsafeRowPair] = manyOf(f, scansOf(f))
  def manyWithPrefix(f: ColumnFamily, prefix: UnsafeRow): Iterator[UnsafeRowPair] =
    manyOf(f, scansOfPrefix(f, prefix))
  def rangeOfMany(
      f: ColumnFamily,
      from: Option[UnsafeRow],
      until: Option[UnsafeRow]
  ): Iterator[UnsafeRowPair] = manyOf(f, scansOfRange(f, from, until))

  /** Removes the rows from the first key (inclusive) to the second (exclusive). */
  def deleteRange(f: ColumnFamily, from: UnsafeRow, until: UnsafeRow): Unit = {
    val (first, last) = (f.bytesOfKey(from), f.bytesOfKey(until))
    bringAll()
    bins.foreach(bin => removeAll(f.number, bin, logOf(bin).range(f.number, first, last)))
  }

  /** Removes a family and its rows; false if neither existed. */
  def removeFamily(name: String): Boolean = {
    val wasThere = families.created.remove(name)
    val numbers = families.remove(name)
    if (numbers.nonEmpty) bringAll()
    val filled = bins.toVector.flatMap { bin =>
      numbers.filter(holding.stateOf(bin).keyCount(_) > 0).map(bin -> _)
    }
    filled.foreach { case (bin, number) => removeAll(number, bin, logOf(bin).scan(number)) }
    wasThere || filled.nonEmpty
  }

  /** The number of the query's own keys, without those of Spark's internal families. */
  def keyCount: Long = {
    val others = families.internalNumbers
    if (others.isEmpty) holding.keyCount
    else holding.keyCount - bins.map(bin => others.map(holding.stateOf(bin).keyCount(_)).sum).sum
  }

  def heapBytes: Long = holding.heapBytes
  def binsOwned: Int = bins.size

  private def bins: Iterator[Int] = holding.bins.filterNot(holding.isLeaving)
  private def logs: Iterator[BinLog] = bins.map(holding.log)

  /** Moves the cursor to a key's record; false if there is none. */
  private def find(f: ColumnFamily, row: UnsafeRow): Boolean = {
    val isThere =
      logOfKey(f, row).find(f.number, f.keys.bytes, f.keys.offset, f.keys.length, cursor)
    if (isThere) f.verify(cursor)
    isThere
  }

  /** The log of a key's bin. Also encodes the key. */
  private def logOfKey(f: ColumnFamily, row: UnsafeRow): BinLog = {
    val log = logOf(bring(f.binOf.hashOf(row)))
    f.keys.encode(row)
    log
  }

  /** Writes the key and value that were encoded last. The key must be encoded before the value,
    * because a checksum covers both.
    */
  private def writeEncoded(f: ColumnFamily, row: UnsafeRow, isAppend: Boolean): Unit = {
    val log = logToWrite(bring(f.binOf.hashOf(row)))
    val keys = f.keys
    val values = f.values
    if (isAppend)
      log.append(
        f.number,
        keys.bytes,
        keys.offset,
        keys.length,
        values.bytes,
        values.offset,
        values.length
      )
    else
      log.put(
        f.number,
        keys.bytes,
        keys.offset,
        keys.length,
        values.bytes,
        values.offset,
        values.length
      )
  }

  private def removeAll(number: Int, bin: Int, scan: Scan): Unit =
    while (scan.next()) {
      val c = scan.cursor
      logToWrite(bin).remove(number, c.bytes, c.keyOffset, c.keyBytes)
    }

  private def scansOf(f: ColumnFamily): Iterator[Scan] = onceLooked {
    bringScanned(f)
    if (f.isSorted) merged(_.range(f.number, null, null)) else logs.map(_.scan(f.number))
  }

  private def scansOfPrefix(f: ColumnFamily, prefix: UnsafeRow): Iterator[Scan] = {
    val bytes = f.bytesOfPrefix(prefix)
    if (f.binOf.isByPrefix)
      Iterator.single(logOf(bring(f.binOf.hashOfPrefix(prefix))).prefix(f.number, bytes))
    else onceLooked { bringAll(); merged(_.prefix(f.number, bytes)) }
  }

  private def scansOfRange(
      f: ColumnFamily,
      from: Option[UnsafeRow],
      until: Option[UnsafeRow]
  ): Iterator[Scan] = {
    val first = from.map(f.bytesOfKey).orNull
    val last = until.map(f.bytesOfKey).orNull
    if (first != null && last != null && f.isOneKey(first, last))
      Iterator.single(logOf(bring(f.binOf.hashOf(from.get))).range(f.number, first, last))
    else
      onceLooked {
        bringScanned(f, _.areAllBefore(until))
        merged(_.range(f.number, first, last))
      }
  }

  /** Scans that bring nothing until someone looks at a row. From Spark 4.3 on a deduplication
    * without a watermark asks for all rows, and looks at none.
    */
  private def onceLooked(scans: => Iterator[Scan]): Iterator[Scan] =
    if (!areIncomplete) scans
    else
      new Iterator[Scan] {
        private lazy val all = scans // if that throws, it is tried again
        override def hasNext: Boolean = all.hasNext
        override def next(): Scan = all.next()
      }

  /** One scan of all logs, in order. */
  private def merged(scan: BinLog => Scan): Iterator[Scan] =
    Iterator.single(new MergedScan(logs.map(scan)))

  private def rowsOf(f: ColumnFamily, scans: Iterator[Scan]): Iterator[UnsafeRowPair] = {
    val pair = new UnsafeRowPair
    cursorsOf(f, scans).map(c =>
      pair.withRows(f.keys.decode(c.bytes, c.keyOffset, c.keyBytes), valueAt(f, c))
    )
  }

  private def manyOf(f: ColumnFamily, scans: Iterator[Scan]): Iterator[UnsafeRowPair] = {
    val many = f.many
    val pair = new UnsafeRowPair
    cursorsOf(f, scans).flatMap { c =>
      val key = f.keys.decode(c.bytes, c.keyOffset, c.keyBytes)
      manyAt(many, c).map(pair.withRows(key, _))
    }
  }

  /** The records of the scans. Verifies each before its rows are decoded. */
  private def cursorsOf(f: ColumnFamily, scans: Iterator[Scan]): Iterator[Cursor] =
    new Iterator[Cursor] {
      private var scan: Scan = _
      private var isReady = false

      override def hasNext: Boolean = {
        while (!isReady && (scan != null || scans.hasNext)) {
          if (scan == null) scan = scans.next()
          if (scan.next()) isReady = true else scan = null
        }
        isReady
      }

      override def next(): Cursor = {
        if (!hasNext) throw new NoSuchElementException
        isReady = false
        f.verify(scan.cursor)
        scan.cursor
      }
    }

  private def valueAt(f: ColumnFamily, c: Cursor): UnsafeRow =
    f.values.decode(c.bytes, c.valueOffset, c.valueBytes)
  private def manyAt(many: MultiValueCodec, c: Cursor): Iterator[UnsafeRow] =
    many.decodeAll(c.bytes, c.valueOffset, c.valueBytes)

  /** The bin of a hash, with what it has of that hash. */
  private def bring(hash: Int): Int = {
    val bin = Bins.of(hash, holding.binsCount)
    if (areIncomplete) fetcher.bring(bin, hash)
    bin
  }

  /** Has all here that a scan is for, if that is known, else all.
    *
    * @param isWithin
    *   whether the scan goes no further than what is due
    */
  private def bringScanned(f: ColumnFamily, isWithin: DueRows => Boolean = _ => true): Unit =
    dueOf(f.name)
      .filter(isWithin)
      .fold(bringAll())(d => fetcher.bringDue(d.due, d.telling, d.opened))

  /** Has all of the worker's bins here. */
  private def bringAll(): Unit = if (areIncomplete) fetcher.completeAll()

  /** The log of a bin. All access to rows gets its log here. Throws MissingBinException if the bin
    * is absent: it is never read as empty (I8).
    */
  private def logOf(bin: Int): BinLog = {
    val log = holding.logOrNull(bin)
    if (log == null) throw missing(bin)
    log.accesses += 1
    log
  }

  private def missing(bin: Int) = {
    val routed = table.map(t => s", $t, which gives the bin to worker ${t.workerOf(bin)}")
    new MissingBinException(s"$key at ${holding.base}${routed.mkString}", holding.worker, bin)
  }

  /** The same, of a bin that is about to change. Only its first row of a batch marks it. */
  private def logToWrite(bin: Int): BinLog = {
    val log = logOf(bin)
    if (!log.isTouched) holding.touch(bin)
    log
  }
}

/** What an operator looks for when it looks at all rows of a family.
  *
  * @param telling
  *   of the store that has the times
  * @param opened
  *   of another store that the operator looks into meanwhile
  */
private[provider] final case class DueRows(due: Due, telling: Fetcher, opened: Option[Fetcher]) {

  /** Whether a range that ends before a key has no row that is not due. A time is the first column
    * of the keys that it orders.
    */
  def areAllBefore(key: Option[UnsafeRow]): Boolean = key.exists(_.getLong(0) - 1 <= due.until)
}
