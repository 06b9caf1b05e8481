// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.log.BinLogModel.{found, keyAt, valueAt, valueOf}
import io.megaphone.log.Bytes.Bytes
import io.megaphone.log.memory.Records
import io.megaphone.log.record.Record

/** An ordered family is scanned by ranges and prefixes of its keys, whatever records its log was
  * made from.
  */
class OrderedFamilySuite extends AnyFunSuite {
  private val ColumnFamily = Record.OrderedFamilyMin

  private def put(log: BinLog, key: Bytes, value: String, family: Int = ColumnFamily): Unit = {
    val bytes = value.getBytes
    log.put(family, Bytes.array(key), 0, key.length, bytes, 0, bytes.length)
  }
  private def put(log: BinLog, key: String, value: String): Unit = put(log, Bytes.of(key), value)
  private def remove(log: BinLog, key: String): Boolean =
    log.remove(ColumnFamily, key.getBytes, 0, key.length)
  private def keys(scan: Scan): Vector[Bytes] =
    Iterator.continually(scan).takeWhile(_.next()).map(s => keyAt(s.cursor)).toVector
  private def texts(scan: Scan): Vector[String] = keys(scan).map(key => new String(key.toArray))
  private def all(log: BinLog): Vector[String] = texts(log.range(ColumnFamily, null, null))
  private def bytes(values: Int*): Array[Byte] = values.map(_.toByte).toArray
  private def numbered(i: Int): String = f"k$i%05d"

  private def ordered(keys: String*): BinLog = {
    val log = new BinLog
    keys.foreach(put(log, _, "v"))
    log
  }

  test("a range includes its start and excludes its end; a missing bound is no limit") {
    val log = ordered("d", "b", "a", "c", "bb")
    assert(all(log) == Vector("a", "b", "bb", "c", "d"))
    assert(texts(log.range(ColumnFamily, "b".getBytes, "d".getBytes)) == Vector("b", "bb", "c"))
    assert(texts(log.range(ColumnFamily, "ba".getBytes, null)) == Vector("bb", "c", "d"))
    assert(texts(log.range(ColumnFamily, null, "b".getBytes)) == Vector("a"))
    assert(texts(log.range(ColumnFamily, Array.emptyByteArray, "b".getBytes)) == Vector("a"))
    for (
      (from, until) <- Seq("b" -> "b", "d" -> "a", "e" -> "z", "0" -> "1", "" -> "", "bc" -> "bd")
    )
      assert(
        texts(log.range(ColumnFamily, from.getBytes, until.getBytes)).isEmpty,
        s"from $from until $until"
      )
    val scan = log.range(ColumnFamily, null, "b".getBytes)
    assert(texts(scan) == Vector("a") && !scan.next())
    put(log, "aa", "v")
    assert(!scan.next(), "a scan that has ended stays so")
  }

  test("a prefix scan shows the prefix and all keys that begin with it, even if it ends in 0xFF") {
    val log = new BinLog
    val all = Seq(
      bytes(),
      bytes(0),
      bytes(1),
      bytes(1, 0),
      bytes(1, 255),
      bytes(1, 255, 255),
      bytes(1, 255, 255, 7),
      bytes(2),
      bytes(128),
      bytes(255),
      bytes(255, 255, 3)
    )
    for (key <- Random.shuffle(all)) put(log, Bytes.of(key), "v")
    for (prefix <- all ++ Seq(bytes(3), bytes(1, 254), bytes(255, 255), bytes(255, 255, 255)))
      assert(
        keys(log.prefix(ColumnFamily, prefix)) == all.filter(_.startsWith(prefix)).map(Bytes.of(_))
      )
    assert(keys(log.prefix(ColumnFamily, null)) == all.map(Bytes.of(_)))
  }

  test("families below 512 keep no order and say so; those from 512 to the last one do") {
    val log = new BinLog
    for (family <- Seq(0, 1, 511)) {
      put(log, Bytes.of("a"), "v", family)
      for (scan <- Seq(() => log.range(family, null, null), () => log.prefix(family, "a".getBytes)))
        assert(
          intercept[IllegalArgumentException](scan()).getMessage
            .contains(s"column family $family keeps no order: only those from 512 on do")
        )
    }
    for (family <- Seq(512, 513, 1023)) {
      assert(!log.range(family, null, null).next())
      for (key <- Seq("b", "a")) put(log, Bytes.of(key + family), "v", family)
      assert(texts(log.range(family, null, null)) == Vector("a" + family, "b" + family))
      assert(
        texts(log.scan(family)).sorted == Vector("a" + family, "b" + family) &&
          log.keyCount(family) == 2
      )
    }
    assert(log.keyCount == 9)
  }

  test("a range shows the keys and values that existed when it began") {
    val log = ordered("a", "c", "e", "g")
    log.settle()
    put(log, "c", "of this batch")
    val scan = log.range(ColumnFamily, null, "x".getBytes)
    val seen = Iterator
      .continually(scan)
      .takeWhile(_.next())
      .map { s =>
        val (key, value) =
          (new String(keyAt(s.cursor).toArray), new String(valueAt(s.cursor).toArray))
        put(log, key + "+", "after the key that the scan is on")
        put(log, "g", "later")
        put(log, "g", "later still")
        remove(log, "e")
        if (key == "c") put(log, "e", "again")
        remove(log, "a")
        (key, value)
      }
      .toVector
    assert(seen == Vector("a" -> "v", "c" -> "of this batch", "e" -> "v", "g" -> "v"))
    assert(all(log) == Vector("a+", "c", "c+", "e+", "g", "g+"))
    assert(!log.range(Record.OrderedFamilyMin + 1, null, null).next())
  }

  test("scans of several logs are merged in the order of the keys") {
    val random = new Random(12)
    for (logs <- Seq(0, 1, 2, 7)) {
      val keys = random.shuffle((0 until 1000).toVector).take(100 * logs).map(numbered)
      val filled = Vector.fill(logs)(new BinLog)
      keys.zipWithIndex.foreach { case (key, i) => put(filled(i % logs), key, "v") }
      assert(
        texts(new MergedScan(filled.iterator.map(_.range(ColumnFamily, null, null)))) == keys.sorted
      )
      val (from, until) = (numbered(200), numbered(700))
      val scan =
        new MergedScan(filled.iterator.map(_.range(ColumnFamily, from.getBytes, until.getBytes)))
      assert(texts(scan) == keys.sorted.filter(k => k >= from && k < until) && !scan.next())
    }
  }

  test("scans of several logs are merged if keys are short, begin alike or are all ones") {
    val random = new Random(13)
    for (logs <- 1 to 9) {
      val keys =
        Set.fill(400)(
          Vector.fill(random.nextInt(11))(Seq[Byte](0, 1, -1)(random.nextInt(3)))
        ) + Vector.empty ++
          Set.fill(200)(
            Vector.fill(8 + random.nextInt(8))(3.toByte) ++ Vector.fill(random.nextInt(9))(
              Seq[Byte](0, 1, -1)(random.nextInt(3))
            )
          ) ++
          Seq(7, 8, 9, 15, 16, 17, 24).map(Vector.fill(_)(-1.toByte))
      val filled = Vector.fill(logs)(new BinLog)
      keys.foreach(key =>
        filled(random.nextInt(logs))
          .put(ColumnFamily, key.toArray, 0, key.length, Array.emptyByteArray, 0, 0)
      )
      val scan = new MergedScan(filled.iterator.map(_.range(ColumnFamily, null, null)))
      val seen = Iterator
        .continually(scan)
        .takeWhile(_.next())
        .map(s => s.cursor.bytes.slice(s.cursor.keyOffset, s.cursor.keyOffset + s.cursor.keyBytes))
      assert(
        seen.toVector.map(_.toVector) == keys.toVector.sortWith((a, b) =>
          java.util.Arrays.compareUnsigned(a.toArray, b.toArray) < 0
        )
      )
      assert(!scan.next())
    }
  }

  test("undo reverts many puts and removals of one key in one tail") {
    val random = new Random(4)
    for (_ <- 0 until 200) {
      val log = ordered("a", "c", "x")
      if (random.nextBoolean()) put(log, "b", "settled")
      log.settle()
      def contents = {
        val scan = log.range(ColumnFamily, null, null)
        Iterator
          .continually(scan)
          .takeWhile(_.next())
          .map(s => (keyAt(s.cursor), valueAt(s.cursor)))
          .toVector
      }
      val before = contents
      for (i <- 0 until random.nextInt(300)) {
        val key = if (random.nextInt(4) > 0) "b" else s"new ${random.nextInt(100)}"
        if (random.nextBoolean()) put(log, key, s"$i") else remove(log, key)
      }
      log.undo()
      assert(contents == before)
      put(log, "b", "again") // and the bytes of the tail are overwritten
      assert(all(log) == Vector("a", "b", "c", "x"))
    }
  }

  test(
    "image, tail and prefix restore the order of the keys, " +
      "and a compacted or copied log lies in order"
  ) {
    val log = new BinLog
    val numbers = new Random(6).shuffle((0 until 3000).toVector)
    numbers.foreach(i => put(log, numbered(i), s"$i"))
    log.settle()
    for (i <- 0 until 3000 by 3) remove(log, numbered(i))
    for (i <- 1 until 3000 by 3) put(log, numbered(i), "new")
    val expected = (0 until 3000).filter(_ % 3 != 0).map(numbered)
    val copy = new BinLog
    for (records <- Seq(log.prefix(), log.tail())) copy.apply(records.toBytes, 0, records.length)
    assert(all(copy) == expected)
    log.settle()
    log.compact()
    assert(
      all(log) == expected && expected.forall(k => log.has(ColumnFamily, k.getBytes, 0, k.length))
    )
    val ofImage = new BinLog
    ofImage.apply(log.image(), 0, log.image().length)
    assert(all(ofImage) == expected)
    for (records <- Seq(log.prefix(), ofImage.tail())) {
      val inLog = Vector.newBuilder[String]
      val records1 = records.toBytes
      Records.foreach(records1, 0, records1.length)((at, header) =>
        inLog += new String(records1, at + Record.HeaderBytes, Record.keyBytes(header))
      )
      assert(inLog.result() == expected)
    }
  }

  test(
    "compaction points both indexes at the same record, " +
      "even if records of one hash or one probe swap positions"
  ) {
    // Small multiples of this begin at the first slot of a HashIndex.
    val firstSlot = BigInt(-1640531527).modInverse(BigInt(1) << 32).toInt
    for (hash <- Seq[Int => Int](_ => 77, _ * firstSlot)) {
      val log = new BinLog
      val keys = (1 to 60).map(i => Bytes.of(Collisions.key(hash(i), Array.emptyByteArray, i)))
      for (round <- 0 until 5) {
        for ((key, i) <- keys.zipWithIndex) put(log, key, s"$round-$i")
        log.settle()
        log.compact()
        log.compact()
        for ((key, i) <- keys.zipWithIndex) {
          assert(valueOf(log, ColumnFamily, Bytes.array(key)).contains(Bytes.of(s"$round-$i")))
          val scan = log.prefix(ColumnFamily, Bytes.array(key))
          assert(scan.next() && valueAt(scan.cursor) == Bytes.of(s"$round-$i"))
        }
        assert(log.logBytes <= 60 * 24 + 256)
      }
    }
  }

  test(
    "a range scan continues if its caller removes the keys shown and others, and puts new ones"
  ) {
    for (step <- Seq(1, 2, 3)) {
      val log = ordered((0 until 2000).map(numbered): _*)
      val scan = log.range(ColumnFamily, numbered(100).getBytes, numbered(1900).getBytes)
      var seen = Vector.empty[String]
      while (scan.next()) {
        val key = new String(keyAt(scan.cursor).toArray)
        seen :+= key
        val i = key.drop(1).toInt
        if (seen.length % step == 0) remove(log, key)
        if (i % 7 == 0) for (ahead <- i until i + 100) remove(log, numbered(ahead))
        put(log, numbered(i - 1) + "behind", "not seen")
        put(log, key + "ahead", "not seen")
      }
      assert(seen == (100 until 1900).map(numbered))
    }
  }

  test("a key put again during a scan is seen once, with its value of when the scan began") {
    val log = ordered((0 until 200).map(numbered): _*)
    val scan = log.range(ColumnFamily, null, null)
    var seen = 0
    while (scan.next()) {
      val key = new String(keyAt(scan.cursor).toArray)
      assert(key == numbered(seen) && valueAt(scan.cursor) == Bytes.of("v"))
      seen += 1
      if (seen % 2 == 0) remove(log, key)
      put(log, key, "old")
      if (seen < 200) put(log, numbered(seen), "young")
    }
    assert(seen == 200)
  }

  test("a range scan ends with the batch that it began in") {
    for (end <- Seq[BinLog => Unit](_.settle(), _.undo())) {
      val log = ordered("a", "b", "c")
      log.settle()
      val scan = log.range(ColumnFamily, null, null)
      assert(scan.next())
      put(log, "b", "new")
      end(log)
      assert(!scan.next() && all(log) == Vector("a", "b", "c"))
    }
  }

  test("two scans of one family, and a lookup between them, do not disturb each other") {
    val log = ordered("a", "b", "c")
    val (one, other) =
      (log.range(ColumnFamily, null, null), log.range(ColumnFamily, "b".getBytes, null))
    assert(
      one.next() && other.next() && one.next() &&
        found(log, ColumnFamily, "a".getBytes).map(keyAt).contains(Bytes.of("a"))
    )
    assert(keyAt(one.cursor) == Bytes.of("b") && keyAt(other.cursor) == Bytes.of("b"))
    assert(texts(one) == Vector("c") && texts(other) == Vector("c"))
  }

  test("the log's heap bytes include both indexes; the ordered one takes under ten bytes a key") {
    val (log, other) = (new BinLog, new BinLog)
    for (i <- new Random(8).shuffle((0 until 20000).toVector)) {
      put(log, numbered(i), "v")
      put(other, Bytes.of(numbered(i)), "v", 0)
    }
    val perKey = (log.heapBytes - other.heapBytes).toDouble / 20000
    assert(perKey > 4 && perKey < 10)
  }
}
