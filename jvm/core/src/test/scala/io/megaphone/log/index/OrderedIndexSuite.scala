// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.index

import java.nio.ByteBuffer

import scala.collection.immutable.TreeMap
import scala.util.Random

import org.scalacheck.Gen
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.log.{BinLogModel, Bytes}
import io.megaphone.log.Bytes.Bytes
import io.megaphone.log.index.OrderedIndex.{NodeMax, NodeMin}
import io.megaphone.log.memory.{PagedRecord, Pages}
import io.megaphone.log.record.{Record, Words}
import io.megaphone.log.record.Cursor

/** An ordered index finds and lists keys as a sorted map does, and stays a shallow tree of
  * well-filled nodes.
  */
class OrderedIndexSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import OrderedIndexSuite._

  private val orders: Seq[(String, Int => Seq[Int])] = Seq(
    "ascending" -> (n => 0 until n),
    "descending" -> (n => (0 until n).reverse),
    "random" -> (n => new Random(n).shuffle((0 until n).toVector)),
    "from both ends" -> (n => (0 until n).map(i => if (i % 2 == 0) i / 2 else n - 1 - i / 2)),
    "from the middle" -> (n =>
      (0 until n).reverse.map(i => if (i % 2 == 0) i / 2 else n - 1 - i / 2)
    ),
    "ascending in seven groups" -> (n => (0 until n).sortBy(i => (i % (n / 7 + 1), i))),
    "descending after existing keys" -> (n =>
      (0 until n).take(NodeMax) ++ (0 until n).drop(NodeMax).reverse
    )
  )
  private val sizes = Seq(
    0,
    1,
    2,
    3,
    NodeMin,
    NodeMax - 1,
    NodeMax,
    NodeMax + 1,
    2 * NodeMax,
    2 * NodeMax + 1,
    40 * NodeMax,
    NodeMax * NodeMax + 1
  )

  for ((name, order) <- orders)
    test(s"keys added and removed in any order are kept in order: $name") {
      for (size <- sizes; (_, removed) <- orders) {
        val model = new Model
        order(size).foreach(i => model.add(numbered(i)))
        model.check()
        val (first, rest) = removed(size).splitAt(size * 3 / 4)
        first.foreach(i => model.remove(numbered(i)))
        model.check()
        first.foreach(i => model.add(numbered(i)))
        model.check()
        (rest ++ first).foreach(i => model.remove(numbered(i)))
        model.check()
        assert(
          model.index.size == 0 && model.index.heapBytes < 128,
          "an index that is empty again has no arrays"
        )
      }
    }

  test(
    "after any sequence of additions, removals and new records an index equals a sorted map, " +
      "and finds the key next to any key"
  ) {
    forAll(Gen.choose(0, 4000), Gen.choose(1, 8), Gen.long, minSuccessful(100)) {
      (stepsCount, addsOfNine, seed) =>
        val random = new Random(seed)
        def key(): Bytes =
          Bytes.of(Array.fill(random.nextInt(6))(Ends(random.nextInt(Ends.length))))
        val model = new Model
        for (_ <- 0 until stepsCount) {
          val (k, isAdd) = (key(), random.nextInt(9) < addsOfNine)
          if (!model.positions.contains(k)) { if (isAdd) model.add(k) }
          else if (isAdd) model.repoint(k)
          else model.remove(k)
        }
        model.check()
        for (_ <- 0 until 20) model.checkSeek(key())
    }
  }

  test(
    "adding an existing key is refused, and so is removing or updating an absent one; " +
      "neither has any effect"
  ) {
    val model = new Model
    for (i <- 0 until 300) model.add(numbered(2 * i))
    for (i <- Seq(0, 2, 200, 598)) {
      val other = model.write(numbered(i))
      assert(
        intercept[IllegalArgumentException](model.index.add(model.pages, other)).getMessage
          .contains("in order already")
      )
      assert(
        intercept[IllegalArgumentException](model.index.remove(model.pages, other)).getMessage
          .contains("is not in order"),
        "another record of the key"
      )
    }
    for (i <- Seq(-1, 1, 201, 599, 601)) {
      val absent = model.write(numbered(i))
      assert(
        intercept[IllegalArgumentException](model.index.remove(model.pages, absent)).getMessage
          .contains("is not in order")
      )
      assert(
        intercept[IllegalArgumentException](model.index.repoint(model.pages, absent, 0)).getMessage
          .contains("is not in order")
      )
    }
    model.check()
  }

  test("a place steps until keys are added or removed, and despite a new record of a key") {
    val model = new Model
    for (i <- 0 until 10) model.add(numbered(i))
    val place = new OrderedIndex.Place
    model.index.seek(place, isAfter = false, model.pages, Bytes.array(numbered(3)), 0, 4)
    model.repoint(numbered(4))
    assert(model.index.step(place) && place.position == model.positions(numbered(4)))
    model.add(numbered(10))
    assert(!model.index.step(place))
    model.index.seek(place, isAfter = true, model.pages, Bytes.array(numbered(4)), 0, 4)
    assert(place.position == model.positions(numbered(5)) && model.index.step(place))
    model.remove(numbered(0))
    assert(!model.index.step(place))
  }

  test("foreach replaces each position by the one returned, in inner nodes too") {
    val model = new Model
    new Random(5).shuffle((0 until 5000).toVector).foreach(i => model.add(numbered(i)))
    model.rewrite()
    model.check()
    for (i <- 0 until 5000 by 3) model.remove(numbered(i))
    for (i <- 0 until 5000) model.checkSeek(numbered(i))
    model.check()
  }

  test(
    "a key costs about six bytes if keys are added at random, less if in order, " +
      "and never more than ten"
  ) {
    val size = 100000
    for ((name, order) <- orders) {
      val model = new Model
      order(size).foreach(i => model.add(numbered(i)))
      val perKey = model.index.heapBytes.toDouble / size
      info(f"$name: $perKey%.2f bytes a key")
      val bound = name match {
        case "ascending" | "descending" | "descending after existing keys" => 5.2
        case "random" | "from both ends" => 6.5
        case _ => 10
      }
      assert(perKey < bound, name)
    }
  }

  test(
    "a key costs at most ten bytes after most keys were removed at random, " +
      "and a small index only some tens of bytes"
  ) {
    val model = new Model
    val keys = new Random(9).shuffle((0 until 50000).toVector)
    keys.foreach(i => model.add(numbered(i)))
    var left = keys.length
    for (i <- keys.take(49000)) {
      model.remove(numbered(i))
      left -= 1
      assert(model.index.heapBytes < 10L * left + 512, s"with $left keys left")
    }
    model.check()
    val small = new Model
    for (i <- 1 to 10) {
      small.add(numbered(i))
      assert(small.index.heapBytes <= 96 + 8 * i)
    }
  }

  test("empty keys, prefixes of other keys and keys of 0xFF are in the order of unsigned bytes") {
    val inOrder =
      Seq(
        Seq(),
        Seq(0),
        Seq(0, 0),
        Seq(0, 255),
        Seq(1),
        Seq(127),
        Seq(127, 255),
        Seq(128),
        Seq(255),
        Seq(255, 0),
        Seq(255, 255),
        Seq(255, 255, 255)
      )
        .map(bytes => Bytes.of(bytes.map(_.toByte).toArray))
    for (shuffled <- Iterator.fill(50)(Random.shuffle(inOrder))) {
      val model = new Model
      shuffled.foreach(model.add)
      assert(model.listed == inOrder)
      inOrder.foreach(model.checkSeek)
      model.check()
    }
  }

  test("byte ranges are compared as unsigned bytes, at any offset") {
    val keys = Gen.listOf(Gen.oneOf(Ends)).map(bytes => Bytes.of(bytes.toArray))
    forAll(keys, keys, Gen.choose(0, 5)) { (one, other, offset) =>
      val compared = Words.compare(
        Array.fill[Byte](offset)(9) ++ one :+ 5.toByte,
        offset,
        one.length,
        Array[Byte](7) ++ other :+ 3.toByte,
        1,
        other.length
      )
      assert(compared.sign == Bytes.Unsigned.compare(one, other).sign)
    }
  }

  test("the successor of a prefix is the first key after all that begin with it") {
    def successor(bytes: Int*): Option[Seq[Int]] =
      Option(Words.successor(bytes.map(_.toByte).toArray)).map(_.toSeq.map(_ & 0xff))
    assert(
      successor(1, 2) == Some(Seq(1, 3)) && successor(127) == Some(Seq(128)) &&
        successor(0) == Some(Seq(1))
    )
    assert(successor(1, 255) == Some(Seq(2)) && successor(1, 254, 255, 255) == Some(Seq(1, 255)))
    assert(successor().isEmpty && successor(255).isEmpty && successor(255, 255, 255).isEmpty)
    val bytes = Array[Byte](3)
    Words.successor(bytes)
    assert(bytes(0) == 3, "the argument is unchanged")
  }
}

object OrderedIndexSuite {

  /** The extreme bytes, signed and unsigned. */
  private val Ends = Vector[Byte](0, 1, 0x7f, -0x80, -2, -1)

  def numbered(i: Int): Bytes = Bytes.of(ByteBuffer.allocate(4).putInt(i ^ Int.MinValue).array)

  /** An index, the pages of its records, and a sorted map of its expected contents. */
  final class Model extends org.scalatest.Assertions {
    var pages = new Pages
    val index = new OrderedIndex
    var positions: TreeMap[Bytes, Int] = TreeMap.empty[Bytes, Int](Bytes.Unsigned)

    def write(key: Bytes): Int = PagedRecord.append(
      pages,
      Record.header(512, Record.Put, key.length, 0),
      Bytes.array(key),
      0,
      Array.emptyByteArray,
      0
    )

    def add(key: Bytes): Unit = {
      val position = write(key)
      index.add(pages, position)
      positions += key -> position
    }

    def remove(key: Bytes): Unit = {
      index.remove(pages, positions(key))
      positions -= key
    }

    def repoint(key: Bytes): Unit = {
      val position = write(key)
      index.repoint(pages, positions(key), position)
      positions += key -> position
    }

    /** Copies the live records to new pages, in order. */
    def rewrite(): Unit = {
      val fresh = new Pages
      index.foreach(PagedRecord.copy(pages, _, fresh))
      pages = fresh
      positions = TreeMap.from(listedPositions.map(p => keyOf(p) -> p))(Bytes.Unsigned)
    }

    def listed: Seq[Bytes] = listedPositions.map(keyOf)

    private def listedPositions: Seq[Int] = {
      val all = Vector.newBuilder[Int]
      index.foreach { p => all += p; p }
      all.result()
    }

    private def keyOf(position: Int): Bytes = {
      val cursor = new Cursor
      PagedRecord.moveTo(pages, position, cursor)
      BinLogModel.keyAt(cursor)
    }

    /** Checks what `seek` finds at a key, and after it. */
    def checkSeek(key: Bytes): Unit = {
      val place = new OrderedIndex.Place
      for (
        (isAfter, expected) <- Seq(
          false -> positions.minAfter(key),
          true -> positions.iteratorFrom(key).find(_._1 != key)
        )
      ) {
        index.seek(place, isAfter, pages, Array[Byte](1, 2) ++ Bytes.array(key), 2, key.length)
        assert(Option.when(!place.isEnd)(place.position) == expected.map(_._2))
      }
    }

    private def steppedPositions: Seq[Int] = {
      val place = new OrderedIndex.Place
      index.seek(place, isAfter = false, pages, Array.emptyByteArray, 0, 0)
      val all = Vector.newBuilder[Int]
      while (!place.isEnd) {
        all += place.position
        assert(index.step(place))
      }
      all.result()
    }

    /** Compares the list of keys with the map, and checks each node. */
    def check(): Assertion = {
      assert(
        listedPositions == positions.values.toVector && steppedPositions == listedPositions &&
          index.size == positions.size
      )
      val nodes = nodesBelow(index.root, isRoot = true)._2
      assert(
        index.heapBytes ==
          nodes.map(_.arrayBytes + OrderedIndex.NodeBytes).sum + OrderedIndex.OwnBytes
      )
    }

    /** Checks the nodes below `node`, and returns its height and all of them, itself included. */
    private def nodesBelow(node: OrderedNode, isRoot: Boolean): (Int, Vector[OrderedNode]) = {
      assert(node.count <= NodeMax && node.count <= node.positions.length)
      if (node.isLeaf) {
        assert(isRoot || node.count > 0)
        (0, Vector(node))
      } else {
        assert(node.count >= (if (isRoot) 2 else NodeMin))
        val below = node.children.take(node.count).toVector
        assert(
          below.map(_.positions(0)) == node.positions.take(node.count).toVector,
          "each position is the first one below"
        )
        assert(node.children.drop(node.count).forall(_ == null), "no dropped node is referred to")
        val (heights, nodes) = below.map(nodesBelow(_, isRoot = false)).unzip
        assert(heights.distinct.length == 1)
        (heights.head + 1, node +: nodes.flatten)
      }
    }
  }
}
