// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import java.nio.file.Files

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.log.BinLogModel._
import io.megaphone.log.Bytes.Bytes
import io.megaphone.log.memory.{
  DamagedRecordsException, HeapBudget, HeapBudgetSuite, SpillException, SpillFiles
}
import io.megaphone.log.record.{Record, Words}
import io.megaphone.testkit.Allocated

/** A bin's log is a map whose changes since `settle` can be read, transferred and undone. */
class BinLogSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def put(log: BinLog, key: String, value: Bytes, family: Int = 0): Unit = {
    val bytes = key.getBytes
    log.put(family, bytes, 0, bytes.length, Bytes.array(value), 0, value.length)
  }
  private def put(log: BinLog, key: String, value: String): Unit = put(log, key, Bytes.of(value))
  private def remove(log: BinLog, key: String): Boolean = log.remove(0, key.getBytes, 0, key.length)
  private def has(log: BinLog, key: String, family: Int = 0): Boolean =
    log.has(family, key.getBytes, 0, key.length)
  private def get(log: BinLog, key: String, family: Int = 0): Option[Bytes] =
    valueOf(log, family, key.getBytes)
  private def keysOf(log: BinLog): Vector[Bytes] = {
    val scan = log.scan(0)
    Iterator.continually(scan).takeWhile(_.next()).map(s => keyAt(s.cursor)).toVector
  }

  test(
    "after any sequence of commands a log equals a map, " +
      "and prefixes and tails do not change after they are taken"
  ) {
    forAll(commands, minSuccessful(200))(agrees(_, HeapBudget.Unlimited))
  }

  for (budget <- Seq(0L, 20000L, 60000L))
    test(s"it does so with a budget of $budget bytes of heap and all other pages on disk") {
      HeapBudgetSuite.withFolder { folder =>
        val spillFiles = new SpillFiles(Seq(folder), fileBytes = 1 << 14)
        var mostOnDisk = 0L
        forAll(commands, minSuccessful(100)) { commands =>
          agrees(commands, new HeapBudget(budget, spillFiles, pageBytesMin = 256))
          mostOnDisk = math.max(mostOnDisk, spillFiles.liveBytes)
        }
        assert(mostOnDisk > 0, "nothing has been on disk")
      }
    }

  private def agrees(commands: List[Command], budget: HeapBudget): Unit = {
    val model = new BinLogModel(budget)
    for (command <- commands) {
      model.run(command)
      model.check()
    }
    model.checkKept()
  }

  test("a key that is there, and what is no put, are not taken in, and what came before them is") {
    def puts(keys: String*) =
      Bytes.concat(keys.map(k => Bytes.putRecord(0, Bytes.of(k), Bytes.of("taken"))))
    val log = new BinLog
    put(log, "a", "1")
    for (
      wrong <- Seq(
        puts("b", "a"),
        puts("c") ++ Bytes.array(Bytes.removeRecord(0, Bytes.of("a"))),
        puts("d").dropRight(1)
      )
    ) intercept[DamagedRecordsException](log.takeIn(wrong, 0, wrong.length))
    assert(keysOf(log).toSet == Set("a", "b", "c").map(Bytes.of(_)))
    log.undo()
    assert(keysOf(log).toSet == Set("b", "c").map(Bytes.of(_)) && !log.isTouched)
  }

  test("records for which there is no room are not taken in, and are once there is room") {
    for (hasTail <- Seq(false, true)) HeapBudgetSuite.withFolder { root =>
      val folder = root.resolve("disk") // it is not there yet
      val log = new BinLog(new HeapBudget(1, new SpillFiles(Seq(folder))))
      put(log, "a", "1")
      if (!hasTail) log.settle()
      val come = (1 to 5).map(i => Bytes.of(s"$i"))
      val bytes =
        Bytes.concat(come.map(Bytes.putRecord(0, _, Bytes.of(new Array[Byte](4096)))))
      val before = log.liveBytes
      intercept[SpillException](log.takeIn(bytes, 0, bytes.length))
      assert(log.liveBytes == before && keysOf(log) == Seq(Bytes.of("a")) && has(log, "a"))
      Files.createDirectory(folder)
      log.takeIn(bytes, 0, bytes.length)
      log.undo()
      assert(keysOf(log).toSet == (if (hasTail) come.toSet else come.toSet + Bytes.of("a")))
    }
  }

  test("an empty log has nothing to find, scan, transfer or undo, and takes at most 200 bytes") {
    val log = new BinLog
    assert(!has(log, "a") && !log.scan(0).next() && !remove(log, "a"))
    log.undo()
    log.compact()
    assert(log.image().isEmpty && log.tail().toBytes.isEmpty && log.prefix().toBytes.isEmpty)
    log.apply(new Array[Byte](0), 0, 0)
    assert(
      !log.isTouched && log.keyCount == 0 && log.liveBytes == 0 && log.tailBytes == 0 &&
        log.logBytes == 0
    )
    assert(log.heapBytes <= 200)
    put(log, "a", "1")
    assert(log.heapBytes < 640)
  }

  test(
    "each append to a value costs only the new bytes; " +
      "the value is read as one, and is one record of the image"
  ) {
    val log = new BinLog
    val parts = (0 until 5000).map(i => s"part $i, ".getBytes)
    for ((part, i) <- parts.zipWithIndex) {
      log.append(0, "list".getBytes, 0, 4, part, 0, part.length)
      if (i % 100 == 99) log.settle()
    }
    val whole = Bytes.of(parts.toArray.flatten)
    assert(log.logBytes < parts.length * 48, "each part is written once")
    assert(get(log, "list").contains(whole))
    assert(
      log.liveBytes == Bytes.recordSize(Bytes.of("list"), whole) &&
        log.image().length == log.liveBytes
    )
    log.compact()
    assert(log.logBytes < log.liveBytes + 512 && get(log, "list").contains(whole))
  }

  test("an append that would make a value too long is refused") {
    val log = new BinLog
    val most = new Array[Byte](Record.ValueBytesMax)
    log.put(0, "a".getBytes, 0, 1, most, 0, most.length)
    val refused =
      intercept[IllegalArgumentException](log.append(0, "a".getBytes, 0, 1, "2".getBytes, 0, 1))
    assert(
      refused.getMessage.contains(
        "a value of 268435456 bytes is too long: at most 268435455 are allowed"
      )
    )
  }

  test(
    "keys of equal hash are distinguished by their bytes, through removal, undo and compaction"
  ) {
    for (hash <- Seq(0, 1, -1, 12345)) {
      val log = new BinLog
      val keys = (1 to 40)
        .map(Collisions.key(hash, Array.emptyByteArray, _))
        .flatMap(k => Seq(k, Collisions.key(hash, k, 7)))
        .toVector
      def values = keys.map(k => valueOf(log, 0, k).fold(-1)(_.head.toInt))
      def put(i: Int, value: Int): Unit =
        log.put(0, keys(i), 0, keys(i).length, Array(value.toByte), 0, 1)
      assert(keys.forall(k => !log.has(0, k, 0, k.length)))
      for (i <- keys.indices) put(i, i)
      log.settle()
      assert(values == keys.indices)
      for (i <- keys.indices)
        if (i % 3 == 0) log.remove(0, keys(i), 0, keys(i).length) else if (i % 3 == 1) put(i, i + 1)
      val changed = keys.indices.map(i => Seq(-1, i + 1, i)(i % 3))
      assert(values == changed)
      val tail = log.tail().toBytes
      log.undo()
      assert(values == keys.indices)
      log.apply(tail, 0, tail.length)
      log.settle()
      log.compact()
      assert(values == changed)
    }
  }

  test("column families share nothing but the log, up to the last family that a header can name") {
    val log = new BinLog
    for (family <- Seq(0, 3, Record.FamilyMax)) put(log, "k", Bytes.of(s"in $family"), family)
    for (family <- Seq(0, 3, Record.FamilyMax))
      assert(get(log, "k", family).contains(Bytes.of(s"in $family")) && log.keyCount(family) == 1)
    assert(!has(log, "k", 1) && log.keyCount == 3)
    val copy = new BinLog
    copy.apply(log.image(), 0, log.image().length)
    assert(get(copy, "k", Record.FamilyMax).contains(Bytes.of(s"in ${Record.FamilyMax}")))
    val e = intercept[IllegalArgumentException](put(log, "k", Bytes.Empty, Record.FamilyMax + 1))
    assert(e.getMessage.contains(s"column family ${Record.FamilyMax + 1} is out of range"))
    assert(log.keyCount == 3)
  }

  test(
    "a key or value too long for a record is refused with both sizes named, and without effect"
  ) {
    val log = new BinLog
    val byte = new Array[Byte](1)
    val tooLong =
      Seq((Record.KeyBytesMax + 1, 0), (0, Record.ValueBytesMax + 1), (Int.MaxValue, Int.MaxValue))
    for ((keyBytes, valueBytes) <- tooLong) {
      val e =
        intercept[IllegalArgumentException](log.put(0, byte, 0, keyBytes, byte, 0, valueBytes))
      assert(
        e.getMessage.contains("is too long: at most") &&
          (e.getMessage.contains(s"$keyBytes bytes") ||
            e.getMessage.contains(s"$valueBytes bytes"))
      )
    }
    assert(!log.isTouched && log.keyCount == 0 && log.liveBytes == 0)
  }

  test("records larger than a mebibyte survive among small ones: undo, compaction, copies") {
    val log = new BinLog
    def value(mebibytes: Int, seed: Long) = Bytes.of(Bytes.random((mebibytes << 20) + 5, seed))
    put(log, "small", "1")
    put(log, "large", value(3, 1))
    put(log, "small too", "2")
    log.settle()
    val before = log.prefix()
    val bytes = before.toBytes
    val large = get(log, "large")
    put(log, "large", value(2, 2))
    put(log, "larger", value(5, 3))
    put(log, "small", "3")
    assert(get(log, "large").contains(value(2, 2)) && get(log, "larger").contains(value(5, 3)))
    val tail = log.tail().toBytes
    assert(Bytes.replay(tail).keySet.map(_._2) == Set("large", "larger", "small").map(Bytes.of(_)))
    log.undo()
    assert(
      get(log, "large") == large && !has(log, "larger") && get(log, "small").contains(Bytes.of("1"))
    )
    log.apply(tail, 0, tail.length)
    log.settle()
    log.compact()
    assert(
      log.logBytes < (9L << 20) && get(log, "larger").contains(value(5, 3)) &&
        get(log, "small too").contains(Bytes.of("2"))
    )
    val copy = new BinLog
    copy.apply(log.image(), 0, log.image().length)
    assert(Bytes.replay(copy.tail().toBytes) == Bytes.replay(log.prefix().toBytes))
    assert(java.util.Arrays.equals(before.toBytes, bytes))
  }

  test("bytes handed out do not change during the batch, despite puts and removals") {
    val log = new BinLog
    for (i <- 0 until 50) put(log, s"k$i", s"value $i")
    log.settle()
    val handedOut = for (i <- 0 until 50) yield {
      val c = found(log, 0, s"k$i".getBytes).get
      (i, c.bytes, c.valueOffset, c.valueBytes)
    }
    for (i <- 0 until 50)
      if (i % 2 == 0) put(log, s"k$i", s"another value, longer than the one before it: $i")
      else remove(log, s"k$i")
    for (i <- 0 until 500) put(log, s"new $i", "n")
    for ((i, bytes, offset, length) <- handedOut)
      assert(Bytes.slice(bytes, offset, length) == Bytes.of(s"value $i"))
  }

  test("a scan continues if its caller removes every key that it shows") {
    val log = new BinLog
    for (i <- 0 until 1000) put(log, s"k$i", "v")
    val scan = log.scan(0)
    var seen = 0
    while (scan.next()) {
      seen += 1
      assert(log.remove(0, scan.cursor.bytes, scan.cursor.keyOffset, scan.cursor.keyBytes))
    }
    assert(seen == 1000 && log.keyCount == 0 && keysOf(log).isEmpty)
  }

  test("a scan whose index has grown shows neither removed keys nor old values") {
    val log = new BinLog
    for (i <- 0 until 100) put(log, s"k$i", "old")
    val scan = log.scan(0)
    assert(scan.next())
    val first = keyAt(scan.cursor)
    for (i <- 0 until 1000) put(log, s"new $i", "n")
    for (i <- 0 until 100 by 2) remove(log, s"k$i")
    for (i <- 1 until 100 by 2) put(log, s"k$i", "young")
    val rest = Iterator
      .continually(scan)
      .takeWhile(_.next())
      .map(s => keyAt(s.cursor) -> valueAt(s.cursor))
      .filter(_._2 != Bytes.of("n"))
      .toVector
    val expected = (1 until 100 by 2).map(i => Bytes.of(s"k$i")).toSet - first
    assert(
      rest.length == expected.size && rest.map(_._1).toSet == expected &&
        rest.forall(_._2 == Bytes.of("young"))
    )
  }

  test("keys that are added and removed for ever cost no memory") {
    val log = new BinLog
    for (round <- 0 until 2000) {
      for (i <- 0 until 10) put(log, s"k$round-$i", "v")
      for (i <- 0 until 10) assert(remove(log, s"k$round-$i"))
      log.settle()
      if (log.logBytes > 4096) log.compact()
    }
    assert(log.keyCount == 0 && log.liveBytes == 0 && log.heapBytes < 8192)
  }

  test("the undo list of a large tail is freed when the tail is settled or undone") {
    val log = new BinLog
    for (i <- 0 until 20000) put(log, "k", s"$i")
    val before = log.heapBytes
    log.settle()
    val settled = log.heapBytes
    assert(settled <= before - 20000 * 8)
    for (i <- 0 until 20000) put(log, "k", s"again $i")
    log.undo()
    assert(log.heapBytes <= settled + 20000 * 4)
    assert(get(log, "k").contains(Bytes.of("19999")))
  }

  test(
    "bytes cut inside a record are refused with the place, and undo reverts the records before it"
  ) {
    val source = new BinLog
    for (i <- 0 until 5) put(source, s"key $i", Bytes.of(Bytes.random(i * 9, i.toLong)))
    remove(source, "key 3")
    val bytes = source.tail().toBytes
    val ends = (0 until 5)
      .map(i => Bytes.recordSize(Bytes.of(s"key $i"), Bytes.of(new Array[Byte](i * 9))))
      .scanLeft(0)(_ + _) :+ bytes.length
    for (length <- 0 to bytes.length) {
      val log = new BinLog
      put(log, "key 0", "the base")
      log.settle()
      if (ends.contains(length)) log.apply(bytes, 0, length)
      else {
        val e = intercept[DamagedRecordsException](log.apply(bytes.take(length), 0, length))
        assert(e.getMessage.contains(s"at byte ${ends.filter(_ < length).last}"))
      }
      log.undo()
      assert(
        !log.isTouched && log.keyCount == 1 && get(log, "key 0").contains(Bytes.of("the base"))
      )
    }
  }

  test("any bytes are records or are refused, and take memory in proportion to their number") {
    val source = new BinLog
    for (i <- 0 until 20) put(source, s"key $i", Bytes.of(Bytes.random(i, i.toLong)))
    val random = new Random(1)
    for (round <- 0 until 5000) {
      val bytes = source.tail().toBytes
      if (round % 2 == 0) random.nextBytes(bytes)
      else for (_ <- 0 to random.nextInt(4)) bytes(random.nextInt(bytes.length)) = round.toByte
      val allocated = Allocated.bytesOf {
        try new BinLog().apply(bytes, 0, bytes.length)
        catch { case _: DamagedRecordsException => () }
      }
      assert(allocated < (1 << 20) + 1000L * bytes.length)
    }
  }

  test("a record whose header has no valid kind is refused") {
    val bytes = new Array[Byte](24)
    Words.set(bytes, 0, Record.header(0, 0, 8, 8))
    assert(
      intercept[DamagedRecordsException](new BinLog().apply(bytes, 0, 24)).getMessage
        .contains("found kind 0")
    )
  }
}
