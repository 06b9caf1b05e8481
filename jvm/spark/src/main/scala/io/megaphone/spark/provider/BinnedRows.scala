// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair

import io.megaphone.errors.MissingBinException
import io.megaphone.format.StoreKey
import io.megaphone.log.{BinLog, MergedScan}
import io.megaphone.log.Scan
import io.megaphone.log.record.Cursor
import io.megaphone.spark.provider.families.{ColumnFamilies, ColumnFamily}
import io.megaphone.spark.provider.rows.MultiValueCodec
import io.megaphone.state.Holding

/** Reads and writes one worker's bins as Spark's rows. One thread. */
private[provider] final class BinnedRows(
    key: StoreKey,
    holding: Holding,
    val families: ColumnFamilies
) {
  private val cursor = new Cursor // of what was found last

  def get(f: ColumnFamily, row: UnsafeRow): UnsafeRow =
    if (find(f, row)) valueAt(f, cursor) else null

  def has(f: ColumnFamily, row: UnsafeRow): Boolean =
    logOfKey(f, row).has(f.number, f.keys.bytes, f.keys.offset, f.keys.length)

  /** All values of a key. */
  def valuesOf(f: ColumnFamily, row: UnsafeRow): Iterator[UnsafeRow] = {
    val many = f.many
    if (find(f, row)) manyAt(many, cursor) else Iterator.empty
  }

  def put(f: ColumnFamily, row: UnsafeRow, value: UnsafeRow): Unit = {
    f.keys.set(row); f.values.set(value); writeSet(f, row, isAppend = false)
  }

  /** Sets the values of a key. */
  def putAll(f: ColumnFamily, row: UnsafeRow, values: Iterable[UnsafeRow]): Unit = {
    val many = f.many
    f.keys.set(row)
    many.setAll(values)
    writeSet(f, row, isAppend = false)
  }

  /** Adds values to those of a key. */
  def merge(f: ColumnFamily, row: UnsafeRow, values: Iterable[UnsafeRow]): Unit = {
    val many = f.many
    f.keys.set(row)
    many.setAll(values)
    writeSet(f, row, isAppend = true)
  }

  def remove(f: ColumnFamily, row: UnsafeRow): Unit = {
    val bin = f.binOf(row)
    val log = logOf(bin)
    val keys = f.keys
    keys.set(row)
    holding.touch(bin)
    log.remove(f.number, keys.bytes, keys.offset, keys.length)
    ()
  }

  /** All rows of the worker's bins, without those of bins that leave; the caller may put and remove
    * meanwhile. The pair is reused, and so are rows that were encoded.
    */
  def iterator(f: ColumnFamily): Iterator[UnsafeRowPair] = rowsOf(f, scansOf(f))

  /** Any row of the default family. */
  def first: Option[UnsafeRowPair] = iterator(families.default).nextOption()

  /** The rows whose keys begin with these columns. As `iterator`. */
  def withPrefix(f: ColumnFamily, prefix: UnsafeRow): Iterator[UnsafeRowPair] =
    rowsOf(f, scansOfPrefix(f, prefix))

  /** The rows from the first key on until, and without, the second, in order. As `iterator`. */
  def range(
      f: ColumnFamily,
      from: Option[UnsafeRow],
      until: Option[UnsafeRow]
  ): Iterator[UnsafeRowPair] = rowsOf(f, scansOfRange(f, from, until))

  /** The same rows as an iterator of pairs, each value of a key in its own. */
  def iteratorOfMany(f: ColumnFamily): Iterator[UnsafeRowPair] = manyOf(f, scansOf(f))
  def manyWithPrefix(f: ColumnFamily, prefix: UnsafeRow): Iterator[UnsafeRowPair] =
    manyOf(f, scansOfPrefix(f, prefix))
  def rangeOfMany(
      f: ColumnFamily,
      from: Option[UnsafeRow],
      until: Option[UnsafeRow]
  ): Iterator[UnsafeRowPair] = manyOf(f, scansOfRange(f, from, until))

  /** Removes the rows from the first key on until, and without, the second. */
  def deleteRange(f: ColumnFamily, from: UnsafeRow, until: UnsafeRow): Unit = {
    val (first, last) = (f.bytesOfKey(from), f.bytesOfKey(until))
    bins.foreach(bin => removeAll(f.number, bin, holding.log(bin).range(f.number, first, last)))
  }

  /** Removes a family with all its rows; false where there was none. */
  def removeFamily(name: String): Boolean = {
    val wasThere = families.created.remove(name)
    val numbers = families.remove(name)
    val filled =
      bins.toVector.flatMap(bin => numbers.filter(holding.log(bin).keyCount(_) > 0).map(bin -> _))
    filled.foreach { case (bin, number) => removeAll(number, bin, holding.log(bin).scan(number)) }
    wasThere || filled.nonEmpty
  }

  /** Keys that are the query's own, not those of Spark's indexes. */
  def keyCount: Long = {
    val others = families.internalNumbers
    if (others.isEmpty) holding.keyCount
    else holding.keyCount - bins.map(bin => others.map(holding.log(bin).keyCount(_).toLong).sum).sum
  }

  def heapBytes: Long = holding.heapBytes
  def binsOwned: Int = bins.size

  private def bins: Iterator[Int] = holding.bins.filterNot(holding.isLeaving)
  private def logs: Iterator[BinLog] = bins.map(holding.log)

  /** Puts the cursor on a key's record; false where there is none. */
  private def find(f: ColumnFamily, row: UnsafeRow): Boolean = {
    val isThere =
      logOfKey(f, row).find(f.number, f.keys.bytes, f.keys.offset, f.keys.length, cursor)
    if (isThere) f.verify(cursor)
    isThere
  }

  /** The log of a key's bin; the family's `keys` have the key's bytes then. */
  private def logOfKey(f: ColumnFamily, row: UnsafeRow): BinLog = {
    val log = logOf(f.binOf(row))
    f.keys.set(row)
    log
  }

  /** Writes what the family's keys and values were set to, the value after the key: a checksum is
    * of both.
    */
  private def writeSet(f: ColumnFamily, row: UnsafeRow, isAppend: Boolean): Unit = {
    val bin = f.binOf(row)
    val log = logOf(bin)
    val keys = f.keys
    val values = f.values
    holding.touch(bin)
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
      holding.touch(bin)
      holding
        .log(bin)
        .remove(number, scan.cursor.bytes, scan.cursor.keyOffset, scan.cursor.keyBytes)
    }

  private def scansOf(f: ColumnFamily): Iterator[Scan] =
    if (f.isSorted) merged(_.range(f.number, null, null)) else logs.map(_.scan(f.number))

  private def scansOfPrefix(f: ColumnFamily, prefix: UnsafeRow): Iterator[Scan] = {
    val bytes = f.bytesOfPrefix(prefix)
    val bin = f.binOf.ofPrefix(prefix)
    if (bin >= 0) Iterator.single(logOf(bin).prefix(f.number, bytes))
    else merged(_.prefix(f.number, bytes))
  }

  private def scansOfRange(
      f: ColumnFamily,
      from: Option[UnsafeRow],
      until: Option[UnsafeRow]
  ): Iterator[Scan] = {
    val first = from.map(f.bytesOfKey).orNull
    val last = until.map(f.bytesOfKey).orNull
    if (first != null && last != null && f.isOneKey(first, last))
      Iterator.single(logOf(f.binOf(from.get)).range(f.number, first, last))
    else merged(_.range(f.number, first, last))
  }

  /** One scan of all logs, in order. */
  private def merged(scan: BinLog => Scan): Iterator[Scan] =
    Iterator.single(new MergedScan(logs.map(scan)))

  private def rowsOf(f: ColumnFamily, scans: Iterator[Scan]): Iterator[UnsafeRowPair] = {
    val pair = new UnsafeRowPair
    cursorsOf(f, scans).map(c =>
      pair.withRows(f.keys.row(c.bytes, c.keyOffset, c.keyBytes), valueAt(f, c))
    )
  }

  private def manyOf(f: ColumnFamily, scans: Iterator[Scan]): Iterator[UnsafeRowPair] = {
    val many = f.many
    val pair = new UnsafeRowPair
    cursorsOf(f, scans).flatMap { c =>
      val key = f.keys.row(c.bytes, c.keyOffset, c.keyBytes)
      manyAt(many, c).map(pair.withRows(key, _))
    }
  }

  /** Of records that are verified, before anybody makes rows of them. */
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
    f.values.row(c.bytes, c.valueOffset, c.valueBytes)
  private def manyAt(many: MultiValueCodec, c: Cursor): Iterator[UnsafeRow] =
    many.rows(c.bytes, c.valueOffset, c.valueBytes)

  private def logOf(bin: Int): BinLog = {
    val log = holding.log(bin)
    if (log == null)
      throw new MissingBinException(
        key.toString,
        holding.worker,
        bin
      ) // I8: never an insert into a bin that is not there
    log
  }
}
