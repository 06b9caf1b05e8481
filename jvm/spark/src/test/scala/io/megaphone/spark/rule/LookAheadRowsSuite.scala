// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.rule

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.types.{BinaryType, DataType, IntegerType}
import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.runtime.Wanted

/** Some rows are held back until the task knows what keys they have: not too many, not too large
  * ones, and none is lost.
  */
class LookAheadRowsSuite extends AnyFunSuite {
  private val bytesOfAll = 1 << 20

  /** Rows of a hash and so many bytes, all in the same memory one after the other, as operators of
    * Spark hand them out.
    */
  private final class Rows(hashes: Iterator[Int], bytes: Int = 0) extends Iterator[InternalRow] {
    private val projection = UnsafeProjection.create(Array[DataType](IntegerType, BinaryType))
    private val filling = new Array[Byte](bytes)
    var taken = 0

    override def hasNext: Boolean = hashes.hasNext
    override def next(): InternalRow = {
      taken += 1; projection(InternalRow(hashes.next(), filling))
    }
  }

  private def watched(rows: Rows, wanted: Wanted, isIncomplete: Int => Boolean = _ => true) =
    new LookAheadExec.Watched(rows, wanted, _.getInt(0), isIncomplete)

  private def told(wanted: Wanted) = wanted.since(0).toSeq

  test("4,096 rows are held back, and their hashes are told before the first of them passes.") {
    val (rows, wanted) = (new Rows(Iterator.range(0, 10000)), new Wanted)
    val ahead = watched(rows, wanted)
    assert(ahead.hasNext)
    assert(rows.taken == 0, "nothing is read before somebody asks for a row")
    assert(ahead.next().getInt(0) == 0)
    assert(rows.taken == 4096)
    assert(told(wanted) == (0 until 4096))
    assert(ahead.map(_.getInt(0)).toSeq == (1 until 10000), "rows are lost or changed")
    assert(told(wanted) == (0 until 10000))
  }

  test("No more than a row beyond 1 MiB is held back.") {
    val (rows, wanted) = (new Rows(Iterator.range(0, 100), bytes = 1 << 16), new Wanted)
    val ahead = watched(rows, wanted)
    ahead.next()
    val held = rows.taken - 1
    assert(held * (1L << 16) <= bytesOfAll && (rows.taken + 1) * (1L << 16) > bytesOfAll, held)
    assert(told(wanted).size == rows.taken)
    assert(ahead.size == 99)
  }

  test("A row that is larger than that passes.") {
    val (rows, wanted) = (new Rows(Iterator(7, 8), bytes = 2 * bytesOfAll), new Wanted)
    val ahead = watched(rows, wanted)
    assert(ahead.next().getInt(0) == 7)
    assert(rows.taken == 1)
    assert(told(wanted) == Seq(7))
    assert(ahead.next().getInt(0) == 8)
    assert(!ahead.hasNext)
  }

  test("Each hash of an incomplete bin is told once, and no other is.") {
    val (rows, wanted) = (new Rows(Iterator.range(0, 9000).map(_ % 100)), new Wanted)
    val ahead = watched(rows, wanted, isIncomplete = _ % 2 == 0)
    assert(ahead.map(_.getInt(0)).toSeq == (0 until 9000).map(_ % 100))
    assert(told(wanted) == (0 until 100 by 2))
  }

  test("A million hashes are told at most; rows of others pass, and are asked for one by one.") {
    val max = 1 << 20
    val (rows, wanted) = (new Rows(Iterator.range(0, max + 5000)), new Wanted)
    assert(watched(rows, wanted).size == max + 5000)
    assert(told(wanted) == (0 until max))
  }
}
