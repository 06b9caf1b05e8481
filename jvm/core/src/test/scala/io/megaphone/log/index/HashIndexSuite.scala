// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.index

import java.nio.{ByteBuffer, ByteOrder}

import scala.util.hashing.MurmurHash3

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.log.Bytes
import io.megaphone.log.record.Words

/** The murmur3 hashes of one bin's keys end in the same bits. The log's own hash and its index must
  * not collide on such keys.
  */
class HashIndexSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val KeysCount = 1300
  private val Bins = 1024
  private val Bin = 5

  /** An index of this many keys is 63 % full; random hashes need 1.9 slots a key, rarely 2.2. */
  private val ProbesMax = 2.4

  private def words(values: Long*): Array[Byte] = {
    val out = ByteBuffer.allocate(values.length * 8).order(ByteOrder.LITTLE_ENDIAN)
    values.foreach(out.putLong)
    out.array
  }

  /** Rows as Spark lays them out: a word of null bits, a word for each column, then strings. */
  private val shapes: Seq[(String, Long => Array[Byte])] = Seq(
    "a counter" -> (i => words(0, i)),
    "a counter without null bits" -> (i => words(i)),
    "a counter in the upper half" -> (i => words(0, i << 32)),
    "multiples of a million" -> (i => words(0, i * 1000000)),
    "timestamps by the minute" -> (i => words(0, 1767225600000000L + i * 60000000L)),
    "doubles" -> (i => words(0, java.lang.Double.doubleToRawLongBits(i.toDouble))),
    "two columns of a grid" -> (i => words(0, i % 1000, i / 1000)),
    "a constant and a counter" -> (i => words(0, 1234567890123L, 42, i)),
    "short strings" -> (i => words(0, (16L << 32) | 8) ++ s"u${10000000 + i}".getBytes),
    "long strings" -> (i =>
      words(0, (16L << 32) | 36) ++ s"https://example.org/users/${1000000000 + i}".getBytes
    ),
    "strings of odd lengths" -> (i => s"user-$i".getBytes)
  )

  private def keysOfOneBin(key: Long => Array[Byte]): Vector[Array[Byte]] =
    Iterator
      .from(0)
      .map(i => key(i.toLong))
      .filter(k => (MurmurHash3.bytesHash(k, 42) & (Bins - 1)) == Bin)
      .take(KeysCount)
      .toVector

  /** Average number of slots read to find a key in an index of these hashes. */
  private def probesPerKey(hashes: Seq[Int]): Double = {
    val index = new HashIndex
    hashes.zipWithIndex.foreach { case (hash, i) => index.add(hash, i) }
    var probes = 0L
    hashes.zipWithIndex.foreach { case (hash, i) =>
      var slot = index.probe(hash)
      probes += 1
      while (HashIndex.positionOf(index.word(slot)) != i) {
        slot = index.next(slot)
        probes += 1
      }
    }
    probes.toDouble / hashes.length
  }

  for ((shape, key) <- shapes) test(s"one bin's keys do not collide: $shape") {
    val hashes = keysOfOneBin(key).map(k => Words.hash(k, 0, k.length))
    assert(hashes.distinct.length >= KeysCount - 1, "32 bits distinguish the keys of a bin")
    for (count <- Seq(KeysCount / 2, KeysCount))
      assert(probesPerKey(hashes.take(count)) < ProbesMax)
    for (shift <- Seq(0, 8, 16, 22)) {
      val used = hashes.map(h => (h >>> shift) & 1023).distinct.length
      assert(used > 650, s"of 1,024 values of the bits from $shift up; random hashes use some 736")
    }
  }

  test("an index spreads even hashes that agree in their low bits, or in all but their low bits") {
    assert(probesPerKey((0 until KeysCount).map(i => i * Bins + Bin)) < ProbesMax)
    assert(probesPerKey((0 until KeysCount).map(i => i << 20)) < ProbesMax)
    assert(probesPerKey(0 until KeysCount) < ProbesMax)
  }

  test("an index grows rarely, whether its keys stay or are replaced") {
    val index = new HashIndex
    var growths = 0
    var slots = index.snapshot
    def add(hash: Int, position: Int): Unit = {
      index.add(hash, position)
      if (!index.isCurrent(slots)) {
        growths += 1
        slots = index.snapshot
      }
    }
    val random = new scala.util.Random(3)
    val hashes = Array.fill(1000)(random.nextInt())
    for (i <- hashes.indices) add(hashes(i), i)
    assert(index.size == 1000 && growths <= 10 && index.heapBytes <= 2048 * 8 + 48)
    growths = 0
    for (position <- 1000 until 51000) {
      val i = position % 1000
      var slot = index.probe(hashes(i))
      while (HashIndex.positionOf(index.word(slot)) != position - 1000) slot = index.next(slot)
      index.remove(slot)
      hashes(i) = random.nextInt()
      add(hashes(i), position)
    }
    assert(index.size == 1000 && growths <= 75, "it reuses the slots of removed keys")
    assert(index.heapBytes <= 2048 * 8 + 48)
  }

  test("a hash depends on the bytes of the range and its length, and on nothing around it") {
    forAll(Gen.choose(0, 50), Gen.choose(0, 20), Gen.long) { (length, offset, seed) =>
      val bytes = Bytes.random(length, seed)
      val moved = Bytes.random(offset, seed + 1) ++ bytes ++ Bytes.random(9, seed + 2)
      assert(Words.hash(moved, offset, length) == Words.hash(bytes, 0, length))
    }
    val zeros = new Array[Byte](64)
    assert((0 to 64).map(Words.hash(zeros, 0, _)).distinct.length == 65)
  }

  test("each bit of a key changes about half of the bits of its hash") {
    for (length <- Seq(1, 7, 8, 12, 16, 24)) {
      var flipped = 0L
      var count = 0L
      for (seed <- 0 until 50) {
        val bytes = Bytes.random(length, seed.toLong)
        val before = Words.hash(bytes, 0, length)
        for (bit <- 0 until length * 8) {
          bytes(bit / 8) = (bytes(bit / 8) ^ (1 << (bit % 8))).toByte
          flipped += Integer.bitCount(before ^ Words.hash(bytes, 0, length))
          count += 1
          bytes(bit / 8) = (bytes(bit / 8) ^ (1 << (bit % 8))).toByte
        }
      }
      val average = flipped.toDouble / count
      assert(average > 12 && average < 20, s"at $length bytes")
    }
  }

  test("words are little-endian at any offset, and refused beyond the array") {
    forAll(Gen.long, Gen.choose(0, 9)) { (word, offset) =>
      val bytes = new Array[Byte](17)
      Words.set(bytes, offset, word)
      assert(
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getLong(offset) == word &&
          Words.get(bytes, offset) == word
      )
      assert(bytes.indices.forall(i => (i >= offset && i < offset + 8) || bytes(i) == 0))
    }
    intercept[IndexOutOfBoundsException](Words.get(new Array[Byte](8), 1))
    intercept[IndexOutOfBoundsException](Words.set(new Array[Byte](8), -1, 0))
  }
}
