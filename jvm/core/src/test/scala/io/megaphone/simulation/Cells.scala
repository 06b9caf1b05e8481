// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import java.util.Arrays

import io.megaphone.checkpoint.Change
import io.megaphone.log.{BinLog, KeyReader, RowTime}
import io.megaphone.log.record.Cursor
import io.megaphone.log.record.Record
import io.megaphone.log.record.Words
import io.megaphone.state.{Holding, Remote}

/** Keys and values as bytes. A key is a small number; a value is a ''stamp'', which also gives its
  * length, so that two values are equal if their stamps are and the bytes are whole. A value begins
  * as a row of one column does, which has the stamp, so that it can be taken for a time.
  */
object Cells {
  private val Keys: Array[Array[Byte]] =
    Array.tabulate(256)(k => bytes(Dice.mix(k.toLong), 8 + k % 5))

  // Some keys share a hash with one of the other family: a sub-bin may have several records.
  private val Hashes: Array[Int] =
    Array.tabulate(256)(k => Dice.mix((if (k % 8 == 1) k - 1 else k) * 31L).toInt)

  private val KeyOfWord: Map[Long, Int] = Keys.indices.map(k => Words.get(Keys(k), 0) -> k).toMap

  def binOf(key: Int, bins: Int): Int = Hashes(key) & (bins - 1)
  def hashOf(key: Int): Int = Hashes(key)

  /** The time of a key whose family is ordered by time. */
  def timeOf(key: Int): Long = Dice.mix(key + 1000L)

  /** The hashes and times of keys as they lie in logs. */
  val Reader: KeyReader = new KeyReader {
    override def hashOf(family: Int, bytes: Array[Byte], keyOffset: Int, keyBytes: Int): Int =
      Hashes(key(bytes, keyOffset))
    override def timeOf(family: Int, bytes: Array[Byte], keyOffset: Int, keyBytes: Int): Long =
      Cells.timeOf(key(bytes, keyOffset))
    private def key(bytes: Array[Byte], keyOffset: Int) = KeyOfWord(Words.get(bytes, keyOffset))
  }

  /** The key that a change is of, and the stamp of its new value; None if it was removed. */
  def changeOf(change: Change): (Int, Option[Long]) = {
    val end = change.keyOffset + change.keyBytes
    val key = Keys.indexWhere(k =>
      k.length == change.keyBytes &&
        Arrays.equals(k, 0, k.length, change.bytes, change.keyOffset, end)
    )
    val isRemoved = change.kind == Record.Remove
    key -> Option.when(!isRemoved)(Words.get(change.bytes, change.valueOffset + StampAt))
  }

  /** Keys are spread over two column families. */
  def familyOf(key: Int): Int = key & 1

  /** The times of the rows of the first family, which operators let go by. */
  val TimesInOrder: RowTime = RowTime.InOrder(0)
  val TimesInValues: RowTime = RowTime.InRow(0, isInKey = false, rowAt = 0, columns = 1, column = 0)

  private val StampAt = 8 // behind the bits of columns that are null

  def put(holding: Holding, bin: Int, key: Int, stamp: Long): Unit = {
    own(holding, bin)
    val k = Keys(key)
    val v = value(stamp)
    holding.touch(bin)
    holding.log(bin).put(familyOf(key), k, 0, k.length, v, 0, v.length)
  }

  def remove(holding: Holding, bin: Int, key: Int): Unit = {
    own(holding, bin)
    val k = Keys(key)
    holding.touch(bin)
    holding.log(bin).remove(familyOf(key), k, 0, k.length)
    ()
  }

  /** The stamp of a key, or 0. */
  def get(holding: Holding, bin: Int, key: Int): Long = {
    own(holding, bin)
    stampOf(holding.log(bin), key)
  }

  /** Throws a violation where a log is not exactly what is expected. */
  def compare(log: BinLog, expected: Map[Int, Long], what: => String): Unit = {
    if (log.keyCount != expected.size)
      throw new Violation(s"$what: expected ${expected.size} keys, found ${log.keyCount}")
    expected.foreachEntry { (key, stamp) =>
      val found = stampOf(log, key)
      if (found != stamp)
        throw new Violation(
          s"$what: key $key should be ${stamp.toHexString} and is ${found.toHexString}"
        )
    }
    if (Dice.mix(log.liveBytes) % 8 == 0) { // scans take long
      val scans = Vector(log.scan(0), log.scan(1))
      val seen = scans.map(scan => Iterator.continually(scan.next()).takeWhile(identity).size).sum
      if (seen != expected.size)
        throw new Violation(s"$what: a scan saw $seen keys of ${expected.size}")
    }
  }

  /** The same of an incomplete bin: what is here is right, and the others are counted. */
  def comparePartial(
      log: BinLog,
      remote: Remote,
      expected: Map[Int, Long],
      what: => String
  ): Unit = {
    val (here, elsewhere) = expected.partition { case (key, _) => remote.isHere(hashOf(key)) }
    if (elsewhere.size != remote.keysElsewhere)
      throw new Violation(
        s"$what: ${elsewhere.size} keys should be elsewhere, not ${remote.keysElsewhere}"
      )
    compare(log, here, what)
  }

  // Invariant I8: a key outside the holding's bins is an error, never an insert.
  private def own(holding: Holding, bin: Int): Unit =
    if (!holding.has(bin))
      throw new Violation(s"worker ${holding.worker} got a key of bin $bin, which it does not have")

  private def stampOf(log: BinLog, key: Int): Long = {
    val k = Keys(key)
    val c = new Cursor
    if (!log.find(familyOf(key), k, 0, k.length, c)) 0L
    else {
      val stamp = Words.get(c.bytes, c.valueOffset + StampAt)
      if (
        c.valueBytes == lengthOf(stamp) && c
          .bytes(c.valueOffset + c.valueBytes - 1) == lastOf(stamp)
      ) stamp
      else
        throw new Violation(
          s"key $key has a value of ${c.valueBytes} bytes where ${lengthOf(stamp)} belong"
        )
    }
  }

  private def value(stamp: Long): Array[Byte] = {
    val v = bytes(0, lengthOf(stamp))
    Words.set(v, StampAt, stamp)
    v(v.length - 1) = lastOf(stamp)
    v
  }

  private def lengthOf(stamp: Long): Int =
    if ((stamp & 0xff) == 7) 900 else StampAt + 9 + (stamp & 31).toInt
  private def lastOf(stamp: Long): Byte = (stamp >>> 8).toByte

  private def bytes(word: Long, length: Int): Array[Byte] = {
    val b = new Array[Byte](length)
    Words.set(b, 0, word)
    b
  }
}
