// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

import scala.collection.immutable.TreeMap
import scala.collection.mutable

import org.scalacheck.Gen
import org.scalatest.Assertions

import io.megaphone.log.Bytes.Bytes
import io.megaphone.log.memory.{HeapBudget, Records}
import io.megaphone.log.record.{Record, Words}
import io.megaphone.log.record.Cursor

/** A BinLog next to a plain map with its expected contents. Each command runs on both, and `check`
  * compares everything visible.
  */
final class BinLogModel(budget: HeapBudget = HeapBudget.Unlimited) extends Assertions {
  import BinLogModel._

  private type Live = Map[(Int, Bytes), Bytes]

  private var log = new BinLog(budget)
  private val cursor = new Cursor
  private var live: Live = Map.empty
  private var settled: Live = Map.empty
  private var written = Vector.empty[(Boolean, Bytes)] // since `settle`: whether it is of the tail
  private val had = mutable.Set.empty[(Int, Bytes)] // keys that the log has or has had
  private var prefix = new Array[Byte](0)
  private val kept = mutable.ArrayBuffer.empty[(Records, Array[Byte])]
  private val random = new scala.util.Random(1) // for the ranges that are checked
  private var drafts = Vector.empty[Survey.Draft] // of some moments before: one made, one not
  // Valid until they are undone.
  private val keptTails = mutable.ArrayBuffer.empty[(Records, Array[Byte])]

  def run(command: Command): Unit = command match {
    case Put(family, key, valueBytes, seed) =>
      put(family, keyOf(key), Bytes.of(Bytes.random(valueBytes, seed.toLong)))
    case Append(family, key, valueBytes, seed) =>
      append(family, keyOf(key), Bytes.of(Bytes.random(valueBytes, seed.toLong)))
    case Remove(family, key) => remove(family, keyOf(key))
    case RemoveInScan(family, seed) =>
      val random = new scala.util.Random(seed)
      val keys = live.keysIterator.collect { case (`family`, key) => key }.toVector ++ KeyPool
      scanWhile(family, rangeOf(family, random))((removed, _) =>
        if (random.nextInt(3) > 0) removed(keys(random.nextInt(keys.length)))
      )
    case PutInScan(family, puts, seed) =>
      val random = new scala.util.Random(seed)
      var left = puts
      scanWhile(family, rangeOf(family, random)) { (removed, current) =>
        // Many in one step, so that the index grows, and nodes split, during the scan.
        val some = math.min(left, random.nextInt(puts / 2 + 1))
        left -= some
        for (i <- 0 until some)
          put(
            family,
            newKeyOf(left + i),
            Bytes.of(Bytes.random(random.nextInt(40), random.nextLong()))
          )
        random.nextInt(5) match {
          case 0 => put(family, current, Bytes.of("overwritten under the scan"))
          case 1 =>
            put(family, keyOf(random.nextInt(KeyPool.length)), Bytes.of("overwritten, or new"))
          case 2 => removed(keyOf(random.nextInt(KeyPool.length)))
          case 3 =>
            append(
              family,
              if (random.nextBoolean()) current else keyOf(random.nextInt(KeyPool.length)),
              Bytes.of("and more")
            )
          case _ =>
        }
      }
    case TakeInScan(family, seed) =>
      val random = new scala.util.Random(seed)
      scanWhile(family, rangeOf(family, random)) { (removed, current) =>
        random.nextInt(3) match {
          case 0 => takeInAhead(family, current, random.nextInt(3), random.nextInt())
          case 1 => put(family, keyOf(random.nextInt(KeyPool.length)), Bytes.of("or new"))
          case _ => removed(keyOf(random.nextInt(KeyPool.length)))
        }
      }
    case Undo =>
      log.undo()
      keptTails.clear()
      live = settled
      prefix = Bytes.concat(Bytes.of(prefix) +: taken)
      written = Vector.empty
    case TakeIn(family, keys, seed) => takeIn(family, keys, seed); ()
    case Settle =>
      log.settle()
      log.repack()
      if (budget != HeapBudget.Unlimited) budget.measure(log.heapBytes)
      kept ++= keptTails
      keptTails.clear()
      prefix = Bytes.concat(Bytes.of(prefix) +: written.map(_._2))
      settled = live
      written = Vector.empty
    case Compact =>
      if (tail.nonEmpty) {
        intercept[IllegalArgumentException](log.compact())
        run(Settle)
      }
      log.compact()
      prefix = log.prefix().toBytes
      assert(Bytes.replay(prefix) == live, "after compaction")
      assert(prefix.length == log.liveBytes, "compaction leaves nothing dead")
    case GoOnFromImage =>
      val image = log.image()
      assert(image.length == log.liveBytes && Bytes.replay(image) == live, "in the image")
      log = new BinLog(budget)
      log.apply(image, 0, image.length)
      log.settle()
      prefix = image
      settled = live
      written = Vector.empty
    case GoOnFromTail =>
      val copy = new BinLog(budget)
      prefix = Bytes.concat(Bytes.of(prefix) +: taken)
      written = written.filter(_._1)
      val (base, bytes) = (prefix, log.tail().toBytes)
      copy.apply(Array.fill[Byte](5)(-1) ++ base, 5, base.length)
      copy.settle()
      copy.apply(bytes ++ Array.fill[Byte](8)(-1), 0, bytes.length)
      log = copy
    case Keep =>
      kept += log.prefix() -> prefix
      keptTails += log.tail() -> Bytes.concat(tail)
  }

  private def tail = written.collect { case (true, record) => record }
  private def taken = written.collect { case (false, record) => record }

  /** Takes in keys that the log has never had. Returns them. */
  private def takeIn(family: Int, keys: Int, seed: Int): Map[Bytes, Bytes] = {
    val random = new scala.util.Random(seed)
    val some = KeyPool.filterNot(key => had((family, key))).take(keys).map { key =>
      key -> Bytes.of(Bytes.random(random.nextInt(60), random.nextLong()))
    }
    val records = some.map { case (key, value) => Bytes.putRecord(family, key, value) }
    val bytes = Bytes.concat(records)
    log.takeIn(Array.fill[Byte](3)(-1) ++ bytes ++ Array.fill[Byte](8)(-1), 3, bytes.length)
    if (tail.isEmpty) prefix = Bytes.concat(Bytes.of(prefix) +: records)
    else written ++= records.map(false -> _)
    for ((key, value) <- some) {
      had += ((family, key))
      live += (family, key) -> value
      settled += (family, key) -> value
    }
    some.toMap
  }

  /** Compares contents, counts and the tail. */
  def check(): Unit = {
    assert(log.keyCount == live.size)
    assert(log.liveBytes == live.iterator.map { case ((_, key), value) =>
      Bytes.recordSize(key, value).toLong
    }.sum)
    assert(log.isTouched == tail.nonEmpty)
    val tailBytes = Bytes.concat(tail)
    assert(
      log.tail().length == tailBytes.length &&
        java.util.Arrays.equals(log.tail().toBytes, tailBytes),
      "the tail"
    )
    assert(
      log.tailBytes == tailBytes.length && log.logBytes >= log.liveBytes &&
        (budget != HeapBudget.Unlimited ||
          log.heapBytes >= log.prefix().length + log.tail().length)
    )
    for (family <- ColumnFamilies ++ AbsentFamilies) {
      val expected = live.collect { case ((`family`, key), value) => key -> value }
      assert(log.keyCount(family) == expected.size)
      for (key <- expected.keysIterator ++ KeyPool.iterator)
        assert(get(family, key) == expected.get(key), "by find")
      val scan = log.scan(family)
      val seen = Iterator
        .continually(scan)
        .takeWhile(_.next())
        .map(s => keyAt(s.cursor) -> valueAt(s.cursor))
        .toVector
      assert(seen.length == expected.size && seen.toMap == expected, "by scan")
      assert(!scan.next())
      if (Record.isOrdered(family)) checkOrder(family, TreeMap.from(expected)(Bytes.Unsigned))
      else intercept[IllegalArgumentException](log.range(family, null, null))
    }
    checkSurvey()
  }

  /** The sub-bins of all hashes together are what the log has. */
  private def checkSurvey(): Unit = {
    checkSurvey(Survey.of(log, ByLastByte))
    drafts.foreach(draft => checkSurvey(Survey.of(log, ByLastByte, Some(draft))))
    drafts = Vector(log.draft(ByLastByte), drafts.lastOption.getOrElse(log.draft(ByLastByte)))
    drafts.head.make()
  }

  private def checkSurvey(survey: Survey): Unit = {
    val expected = live.groupBy { case ((_, key), _) => hashOf(key) }
    val hashes = expected.keys.toVector.sorted
    for (from <- Vector(Int.MinValue, 0, random.nextInt())) {
      val seen = Vector.newBuilder[Int]
      survey.foreachFrom(from) { hash => seen += hash; true }
      val all = seen.result()
      assert(all == all.sorted.distinct && all.forall(_ >= from), "in order, once")
      val some = all.filter(survey.bytesOf(_).nonEmpty)
      assert(some == hashes.filter(_ >= from), "the hashes that there are")
    }
    for (hash <- hashes)
      assert(Bytes.replay(survey.bytesOf(hash)) == expected(hash), s"the sub-bin of $hash")
    assert(survey.bytesOf(AbsentHash).isEmpty)
  }

  private def checkOrder(family: Int, expected: TreeMap[Bytes, Bytes]): Unit = {
    for (
      range <- Vector(Range(None, None), rangeOf(family, random).get, rangeOf(family, random).get)
    ) {
      val scan = range.scan(log, family)
      val seen = Iterator
        .continually(scan)
        .takeWhile(_.next())
        .map(s => keyAt(s.cursor) -> valueAt(s.cursor))
        .toVector
      assert(seen == expected.view.filterKeys(range.contains).toVector, s"in $range")
      assert(!scan.next())
    }
  }

  /** A random range of an ordered family, at times that of a prefix, or all keys; None for a family
    * without order.
    */
  private def rangeOf(family: Int, random: scala.util.Random): Option[KeyRange] =
    Option.when(Record.isOrdered(family)) {
      def bound() = Option.when(random.nextInt(4) > 0)(KeyPool(random.nextInt(KeyPool.length)))
      if (random.nextInt(3) > 0) Range(bound(), bound())
      else bound().fold[KeyRange](Prefix(Bytes.Empty))(key => Prefix(key.take(random.nextInt(4))))
    }

  /** Checks that the prefixes and tails that were kept have not changed. */
  def checkKept(): Unit = {
    run(Keep)
    for ((records, bytes) <- kept ++ keptTails) {
      assert(records.length == bytes.length)
      assert(
        java.util.Arrays.equals(records.toBytes, bytes),
        "a prefix or a tail does not change after it was taken"
      )
    }
  }

  private def put(family: Int, key: Bytes, value: Bytes): Unit = {
    val (keys, values) = (surrounded(key, 3), surrounded(value, 6))
    log.put(family, keys, 3, key.length, values, 6, value.length)
    live += (family, key) -> value
    had += ((family, key))
    written :+= true -> Bytes.putRecord(family, key, value)
  }

  private def append(family: Int, key: Bytes, value: Bytes): Unit = {
    val (keys, values) = (surrounded(key, 3), surrounded(value, 6))
    log.append(family, keys, 3, key.length, values, 6, value.length)
    live += (family, key) -> (live.getOrElse((family, key), Bytes.Empty) ++ value)
    had += ((family, key))
    written :+= true -> Bytes.appendRecord(family, key, value)
  }

  private def remove(family: Int, key: Bytes): Unit = {
    val isThere = live.contains((family, key))
    assert(log.remove(family, surrounded(key, 1), 1, key.length) == isThere)
    if (isThere) {
      live -= ((family, key))
      written :+= true -> Bytes.removeRecord(family, key)
    }
  }

  private def get(family: Int, key: Bytes): Option[Bytes] =
    if (log.find(family, surrounded(key, 2), 2, key.length, cursor)) {
      assert(log.has(family, surrounded(key, 1), 1, key.length) && keyAt(cursor) == key)
      Some(valueAt(cursor))
    } else {
      assert(!log.has(family, surrounded(key, 1), 1, key.length))
      None
    }

  /** What a range scan under way is to show: what was there when it began, or was taken in since
    * and lies ahead of it.
    */
  private var begun: Live = Map.empty

  private def takeInAhead(family: Int, current: Bytes, keys: Int, seed: Int): Unit =
    for ((key, value) <- takeIn(family, keys, seed) if Bytes.Unsigned.gt(key, current))
      begun += (family, key) -> value

  /** Scans a family, or a range of it, and checks the scan's contract. Calls `change` for each key,
    * with a function that removes keys, and with the key.
    */
  private def scanWhile(family: Int, range: Option[KeyRange])(
      change: (Bytes => Unit, Bytes) => Unit
  ): Unit = {
    val throughout = mutable.Set.from(live.keysIterator.collect {
      case (`family`, key) if range.forall(_.contains(key)) => key
    })
    val seen = mutable.ArrayBuffer.empty[Bytes]
    begun = live
    val scan = range.fold(log.scan(family))(_.scan(log, family))
    while (scan.next()) {
      val key = keyAt(scan.cursor)
      val shown = if (range.isEmpty) live else begun
      assert(
        shown.get((family, key)).contains(valueAt(scan.cursor)),
        "a scan shows the current values, a range those of when it began"
      )
      for (r <- range)
        assert(
          r.contains(key) && seen.lastOption.forall(Bytes.Unsigned.lt(_, key)),
          s"within $r and in order"
        )
      seen += key
      change(removed => { remove(family, removed); throughout -= removed }, key)
    }
    val counts = seen.groupMapReduce(identity)(_ => 1)(_ + _)
    for (key <- throughout)
      assert(counts.get(key).contains(1), "a key that exists throughout is seen once")
    for (r <- range) {
      val expected = begun.keysIterator
        .collect { case (`family`, key) if r.contains(key) => key }
        .toVector
        .sorted(Bytes.Unsigned)
      assert(
        seen.toVector == expected,
        "a range shows the keys that existed when it began, and no others"
      )
    }
  }
}

object BinLogModel {
  sealed trait Command
  final case class Put(family: Int, key: Int, valueBytes: Int, seed: Int) extends Command
  final case class Append(family: Int, key: Int, valueBytes: Int, seed: Int) extends Command
  final case class Remove(family: Int, key: Int) extends Command
  final case class RemoveInScan(family: Int, seed: Int) extends Command
  final case class PutInScan(family: Int, puts: Int, seed: Int) extends Command

  /** Takes in some keys, while there is a tail or none. */
  final case class TakeIn(family: Int, keys: Int, seed: Int) extends Command
  final case class TakeInScan(family: Int, seed: Int) extends Command
  case object Undo extends Command
  case object Settle extends Command

  /** Compacts; if there is a tail, checks that `compact` refuses, and settles first. */
  case object Compact extends Command

  /** Continues with a new log made from the image. */
  case object GoOnFromImage extends Command

  /** Continues with a copy of the prefix to which the tail was applied. */
  case object GoOnFromTail extends Command
  case object Keep extends Command

  /** The part of an ordered family that a scan shows. */
  sealed trait KeyRange {
    def contains(key: Bytes): Boolean
    def scan(log: BinLog, family: Int): Scan
  }
  final case class Range(from: Option[Bytes], until: Option[Bytes]) extends KeyRange {
    def contains(key: Bytes): Boolean =
      from.forall(Bytes.Unsigned.lteq(_, key)) && until.forall(Bytes.Unsigned.lt(key, _))
    def scan(log: BinLog, family: Int): Scan =
      log.range(family, from.map(Bytes.array).orNull, until.map(Bytes.array).orNull)
  }
  final case class Prefix(prefix: Bytes) extends KeyRange {
    def contains(key: Bytes): Boolean = key.startsWith(prefix)
    def scan(log: BinLog, family: Int): Scan = log.prefix(family, prefix.toArray)
  }

  /** Some without order, from the lower half of the numbers, and some ordered, from the upper. */
  val ColumnFamilies: Vector[Int] = Vector(0, 1, 6, 512, 517)
  val AbsentFamilies: Vector[Int] = Vector(9, 513)

  /** Keys of equal hash, some of them prefixes of others: of the hash of another key of the pool,
    * and of the hashes 0 and 1, which an index could mistake for no key.
    */
  private val colliding: Vector[Array[Byte]] =
    Vector(Words.hash(new Array[Byte](8), 0, 8), 0, 1).flatMap { hash =>
      val (one, other) = (
        Collisions.key(hash, Array.emptyByteArray, 1),
        Collisions.key(hash, Array.emptyByteArray, 2)
      )
      Vector(one, other, Collisions.key(hash, one, 3), Collisions.key(hash, one ++ other, 4))
    }

  /** Short keys of extreme bytes, signed and unsigned; many are prefixes of others. */
  private val extreme: Vector[Bytes] = {
    val bytes = Vector(0, 0x7f, 0x80, 0xff).map(_.toByte)
    val pairs = for (one <- bytes; other <- bytes) yield Array(one, other)
    (bytes.map(Array(_)) ++ pairs ++ pairs.map(_ :+ (-1).toByte)).map(Bytes.of(_))
  }

  /** The colliding keys, keys of every length from 0 to 40, and the extreme keys. Keys of even
    * length are all zeros, so that some differ in nothing but their length.
    */
  val KeyPool: Vector[Bytes] = colliding.map(Bytes.of(_)) ++
    (0 to 40).map(length =>
      Bytes.of(
        if (length % 2 == 0) new Array[Byte](length) else Bytes.random(length, length.toLong)
      )
    ) ++
    extreme

  def keyOf(i: Int): Bytes = KeyPool(i)
  def newKeyOf(i: Int): Bytes = Bytes.of(s"a new key, number $i")

  /** So that few of the keys, over all families, have one hash; some are negative. */
  private def hashOf(key: Bytes): Int = key.lastOption.fold(0)(last => (last & ~3) * 0x01000193)
  private val ByLastByte: KeyReader =
    (_, bytes, keyOffset, keyBytes) => hashOf(Bytes.slice(bytes, keyOffset, keyBytes))
  private val AbsentHash = 1

  def keyAt(c: Cursor): Bytes = Bytes.slice(c.bytes, c.keyOffset, c.keyBytes)
  def valueAt(c: Cursor): Bytes = Bytes.slice(c.bytes, c.valueOffset, c.valueBytes)

  /** A cursor on a key's record. */
  def found(log: BinLog, family: Int, key: Array[Byte]): Option[Cursor] = {
    val cursor = new Cursor
    Option.when(log.find(family, key, 0, key.length, cursor))(cursor)
  }
  def valueOf(log: BinLog, family: Int, key: Array[Byte]): Option[Bytes] =
    found(log, family, key).map(valueAt)

  private def surrounded(bytes: Bytes, offset: Int): Array[Byte] =
    Array.fill[Byte](offset)(-1) ++ Bytes.array(bytes) ++ Array.fill[Byte](9)(-1)

  private val families = Gen.frequency(6 -> 0, 3 -> 1, 1 -> 6, 6 -> 512, 2 -> 517)
  private val keys = Gen.frequency(2 -> Gen.choose(0, 20), 2 -> Gen.choose(0, KeyPool.length - 1))
  private val valueSizes =
    Gen.frequency(6 -> Gen.choose(0, 64), 3 -> Gen.choose(0, 700), 1 -> Gen.choose(0, 5000))
  private val seeds = Gen.choose(0, Int.MaxValue)

  val commands: Gen[List[Command]] = {
    val one: Gen[Command] = Gen.frequency(
      50 -> Gen.zip(families, keys, valueSizes, seeds).map(Put.tupled),
      25 -> Gen.zip(families, keys, valueSizes, seeds).map(Append.tupled),
      20 -> Gen.zip(families, keys).map(Remove.tupled),
      3 -> Gen.zip(families, seeds).map(RemoveInScan.tupled),
      2 -> Gen.zip(families, Gen.choose(1, 60), seeds).map(PutInScan.tupled),
      4 -> Gen.zip(families, Gen.choose(0, 6), seeds).map(TakeIn.tupled),
      2 -> Gen.zip(families, seeds).map(TakeInScan.tupled),
      5 -> Gen.const(Undo),
      6 -> Gen.const(Settle),
      2 -> Gen.const(Compact),
      2 -> Gen.const(GoOnFromImage),
      3 -> Gen.const(GoOnFromTail),
      5 -> Gen.const(Keep)
    )
    Gen.choose(1, 150).flatMap(Gen.listOfN(_, one))
  }
}
