// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import scala.collection.mutable

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.errors.BinTooLargeException
import io.megaphone.log.Bytes
import io.megaphone.log.Bytes.Bytes

/** Pages are one address space: records written at a position stay there, in order, whatever page
  * they lie in.
  */
class PagesSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import PageLayout._
  import PagesSuite._

  /** The last slot whose first position fits an Int; it begins 512 words below the end. */
  private val LastSlot = 24 + 262140
  private val MiB = 1 << 20

  private def write(pages: Pages, record: Bytes): Int = {
    val position = pages.reserve(record.length)
    System.arraycopy(
      Bytes.array(record),
      0,
      pages.page(position),
      pages.offset(position),
      record.length
    )
    position
  }

  private def read(pages: Pages, from: Int, until: Int): Array[Byte] = {
    val parts = mutable.ArrayBuffer.empty[Bytes]
    pages.foreachStretch(from, until) { (page, start, stop) =>
      assert(start < stop)
      parts += Bytes.slice(page, start, stop - start)
    }
    Bytes.concat(parts)
  }

  test("slots tile the address space without gaps, and each position of a slot leads back to it") {
    assert(startOf(0) == 0)
    for (slot <- 0 to LastSlot) {
      val start = startOf(slot)
      val last = math.min(start.toLong + slotBytes(slot) / 8 - 1, Int.MaxValue.toLong).toInt
      if (slot < LastSlot) assert(startOf(slot + 1) == last + 1)
      assert(
        slotOf(start) == slot && slotOf(last) == slot && slotOf(start + (last - start) / 2) == slot
      )
    }
    assert(slotOf(Int.MaxValue) == LastSlot)
  }

  test("a log that would be longer than one can be is told, with what to do") {
    assert(endAfter(Int.MaxValue - 2, size = 16) == Int.MaxValue)
    for ((position, size) <- Seq((Int.MaxValue - 1, 16), (startOf(LastSlot + 1), 8))) {
      val e = intercept[BinTooLargeException](endAfter(position, size))
      assert(e.condition == "BIN_TOO_LARGE")
      assert(
        e.getMessage == "The log of a bin would have more than 17179869176 bytes, which is the " +
          "most that it can have: keep less state, for example by a shorter watermark or time to " +
          "live, or start the query from a new checkpoint with more bins (spark.megaphone.bins)."
      )
    }
  }

  test("every position lies in the slot that begins at or below it") {
    forAll(Gen.oneOf(Gen.choose(0, Int.MaxValue), Gen.choose(0, 600000)), minSuccessful(2000)) {
      position =>
        val slot = slotOf(position)
        assert(startOf(slot) <= position && position < startOf(slot).toLong + slotBytes(slot) / 8)
    }
  }

  test("slots come in levels of four, from 1 KiB to 64 KiB, and then stay at 64 KiB") {
    assert((0 until 12).map(slotBytes(_) >> 10) == Vector(1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4))
    assert(slotBytes(23) == (32 << 10) && (24 to LastSlot).forall(slotBytes(_) == (64 << 10)))
  }

  private val sizes = Gen.frequency(
    20 -> Gen.choose(1, 40),
    // Around steps and the smallest slots.
    10 -> Gen.oneOf(31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257),
    10 -> Gen.choose(1, 700),
    2 -> Gen.choose(1, 20000),
    1 -> Gen.choose(100000, 400000)
  )
  private val steps: Gen[List[Step]] = {
    val step = Gen.frequency[Step](
      20 -> sizes.map(words => Append(words * 8)),
      2 -> Gen.choose(0, 1000).map(Truncate(_)),
      2 -> Gen.choose(0, 1000).map(Keep(_))
    )
    Gen.choose(1, 80).flatMap(Gen.listOfN(_, step))
  }

  test("a stretch between any two records reads as written, after any appends and truncations") {
    forAll(steps, Gen.long, minSuccessful(200)) { (steps, seed) =>
      val budget = new HeapBudget(Long.MaxValue, new SpillFiles(Vector.empty))
      val pages = new Pages(budget)
      val random = new scala.util.Random(seed)
      val records = mutable.ArrayBuffer.empty[(Int, Bytes)]
      val kept = mutable.ArrayBuffer.empty[(Pages, Int, Array[Byte], Long)]
      var immutableRecords = 0 // records handed out are never truncated
      def endOf(count: Int): Int = if (count == 0) 0
      else records(count - 1) match { case (position, bytes) => position + bytes.length / 8 }
      steps.foreach {
        case Append(bytes) =>
          val record = Bytes.of(Bytes.random(bytes, random.nextLong()))
          val end = pages.end
          val position = write(pages, record)
          assert(position >= end && pages.end == position + bytes / 8)
          assert(
            pages.offset(position) + bytes <= pages.page(position).length,
            "a record never spans pages"
          )
          records += position -> record
        case Truncate(permille) =>
          val count = immutableRecords + (records.length - immutableRecords) * permille / 1000
          pages.truncate(endOf(count))
          records.dropRightInPlace(records.length - count)
          assert(pages.end == endOf(count))
        case Keep(permille) =>
          immutableRecords += (records.length - immutableRecords) * permille / 1000
          val end = endOf(immutableRecords)
          val view = pages.prefix(end)
          kept += ((
            view,
            end,
            Bytes.concat(records.take(immutableRecords).map(_._2)),
            view.heapBytes
          ))
      }
      for ((position, bytes) <- records)
        assert(Bytes.slice(pages.page(position), pages.offset(position), bytes.length) == bytes)
      for (_ <- 0 until 20) {
        val (from, until) = {
          val a = random.nextInt(records.length + 1)
          val b = random.nextInt(records.length + 1)
          (math.min(a, b), math.max(a, b))
        }
        val expected = Bytes.concat(records.slice(from, until).map(_._2))
        assert(java.util.Arrays.equals(read(pages, endOf(from), endOf(until)), expected))
        if (from < until)
          assert(java.util.Arrays.equals(read(pages, records(from)._1, endOf(until)), expected))
      }
      for ((view, end, bytes, heapBytes) <- kept) {
        assert(
          java.util.Arrays.equals(read(view, 0, end), bytes),
          "later appends do not change a prefix"
        )
        assert(view.heapBytes == heapBytes, "nor does it hold later pages")
      }
      assert(
        budget.heldBytes >= pages.end * 8L - pages.bytesOnDisk - endOf(records.length) * 8L +
          Bytes.concat(records.map(_._2)).length
      )
      pages.truncate(0)
      assert(budget.heldBytes == 0, "all bytes reported as held are reported as freed")
    }
  }

  test("a record larger than a slot has a page of its own, and the next record follows it") {
    for (
      size <- Seq(264, 1032, 2056, 5000, 9000, MiB - 8, MiB, MiB + 8, 3 * MiB + 40, 20 * MiB);
      before <- Seq(0, 8, 256, 1024, 3000, 9000)
    ) {
      val pages = new Pages
      if (before > 0) write(pages, Bytes.of(Bytes.random(before / 8 * 8, 1)))
      val large = Bytes.of(Bytes.random(size, 2))
      val small = Bytes.of(Bytes.random(48, 3))
      val (at, next, last) = (write(pages, large), write(pages, small), write(pages, large))
      assert(at < next && next < last && next >= at + size / 8)
      for ((position, bytes) <- Seq(at -> large, next -> small, last -> large))
        assert(Bytes.slice(pages.page(position), pages.offset(position), bytes.length) == bytes)
      assert(Bytes.of(read(pages, at, pages.end)) == large ++ small ++ large)
      assert(Bytes.of(read(pages, next, pages.end)) == small ++ large)
      pages.truncate(next)
      assert(
        write(pages, small) == next &&
          Bytes.of(read(pages, 0, pages.end)).takeRight(size + 48) == large ++ small
      )
    }
  }

  test("a record as large as one or several slots takes exactly those") {
    for (size <- Seq(1024, 2048, 3072, 4096, 6144)) {
      val pages = new Pages
      assert(pages.page(pages.reserve(size)).length == size)
      assert(
        pages.page(pages.reserve(8)).length <= (if (size < 4096) 8 + math.max(64, size / 8)
                                                else 2048),
        "and the next one starts a new page"
      )
    }
  }

  test("expected records take no steps, and no room is made for more") {
    val pages = new Pages(expectedWords = 300)
    assert(pages.page(pages.reserve(40)).length == 1024 && pages.heapBytes < 1100)
    while (pages.end < 256) pages.reserve(512)
    assert(pages.page(pages.reserve(40)).length == 824, "the rest of the expected records")
  }

  test(
    "a log of small records leaves an eighth of its pages unused on average, " +
      "never more than about half, and some hundred bytes while it is tiny"
  ) {
    val pages = new Pages
    var written = 0L
    val shares = mutable.ArrayBuffer.empty[Double] // unused share of the heap bytes
    while (written < 64L * MiB) {
      written += 64
      pages.reserve(64)
      if (written > 4096) shares += (pages.heapBytes - written).toDouble / pages.heapBytes
      assert(
        pages.heapBytes - written <= math.max(256, written * (if (written <= 4096) 0.2 else 0.52)),
        s"after $written bytes"
      )
      if (written == MiB / 16) assert(shares.sum / shares.length < 0.125)
    }
    assert(pages.heapBytes < 65.1 * MiB)
    pages.truncate(0)
    assert(pages.heapBytes < (16 << 10), "only the list of pages is left")
  }

  test("a page without room for the next record is cut to its records, also after a truncation") {
    val pages = new Pages
    val random = new scala.util.Random(1)
    def appended() = for (_ <- 0 until 1000) pages.reserve(8 * (1 + random.nextInt(60)))
    appended()
    pages.truncate(0)
    appended()
    val unused = mutable.ArrayBuffer.empty[Int]
    pages.foreachStretch(0, pages.end)((page, _, stop) => unused += page.length - stop)
    assert(unused.length > 20 && unused.init.forall(_ == 0))
  }

  test("bytes read from a page do not change while the page grows") {
    val pages = new Pages
    val records = Vector.tabulate(200)(i => Bytes.of(Bytes.random(40, i.toLong)))
    val read = records.map { record =>
      val position = write(pages, record)
      (pages.page(position), pages.offset(position))
    }
    assert(read.map(_._1).distinct.size > 10, "a page had several arrays in turn")
    for (((page, at), record) <- read.zip(records))
      assert(Bytes.slice(page, at, record.length) == record)
  }

  test("no page is allocated before the first record") {
    assert(new Pages().heapBytes == 0 && new Pages().prefix(0).heapBytes == 0)
    assert(read(new Pages, 0, 0).isEmpty)
  }
}

object PagesSuite {
  private sealed trait Step
  private final case class Append(bytes: Int) extends Step
  private final case class Truncate(permille: Int) extends Step
  private final case class Keep(permille: Int) extends Step
}
