// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}

import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.errors.InvalidPlanException

import Tables._

class RoutingTableSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val small = RoutingTable.roundRobin(bins = 8, workers = 3, number = 17)

  private def condition(body: => Any): String = intercept[InvalidPlanException](body).condition

  test("round robin gives bin b to worker b mod workers") {
    assert((0 until 8).map(small.workerOf) == Seq(0, 1, 2, 0, 1, 2, 0, 1))
    assert(small.binsOf(2).toSeq == Seq(2, 5) && small.binCounts.toSeq == Seq(3, 3, 2))
    assert(RoutingTable.roundRobin(bins = 2, workers = 5).binCounts.toSeq == Seq(1, 1, 0, 0, 0))
  }

  test("every bin is in the bins of its owner, ascending, and in no other's") {
    forAll(tables) { table =>
      val owned = (0 until table.workers).map(table.binsOf(_).toSeq)
      assert(owned.flatten.sorted == (0 until table.bins))
      owned.zipWithIndex.foreach { case (bins, worker) =>
        assert(bins == bins.sorted && bins.forall(table.workerOf(_) == worker))
        assert(table.binCounts(worker) == bins.length)
      }
    }
  }

  test("the moves from one table to another make the other, and there are none that need not be") {
    forAll(tables, workerCounts, minSuccessful(200)) { (from, workersAfter) =>
      val to = random(from.bins, workersAfter, seed = from.contentHash)
      val moves = from.movesTo(to)
      assert(
        moves.length == (0 until from.bins).count(bin => from.workerOf(bin) != to.workerOf(bin))
      )
      /* What stays must fit into the new table: any move at all can shrink it, if it takes what
       * stands in the way. */
      assert(from.moved(moves, to.number, to.workers) == to)
    }
  }

  test("moving leaves the old table as it was") {
    val after = small.moved(Seq(Move(0, 3)), number = 18, workers = 4)
    assert(after.workerOf(0) == 3 && after.number == 18 && after.workers == 4)
    assert(small == RoutingTable.roundRobin(bins = 8, workers = 3, number = 17))
  }

  test("arrays handed out are copies") {
    small.binsOf(0)(0) = 99
    small.binCounts(0) = 99
    assert(small.binsOf(0).head == 0 && small.binCounts(0) == 3)
  }

  test("a table that cannot be is refused by name") {
    assert(condition(RoutingTable.roundRobin(12, 3)) == "BINS_NOT_POWER_OF_TWO")
    for (workers <- Seq(-1, 0, 65537)) {
      assert(condition(RoutingTable.roundRobin(8, workers)) == "INVALID_WORKERS")
      assert(condition(small.moved(Nil, 18, workers)) == "INVALID_WORKERS")
    }
    assert(condition(RoutingTable.tabulate(8, 3, 0)(_ => 3)) == "UNKNOWN_WORKER")
    assert(
      condition(small.binsOf(3)) == "UNKNOWN_WORKER" && condition(
        small.binsOf(-1)
      ) == "UNKNOWN_WORKER"
    )
    assert(condition(small.movesTo(RoutingTable.roundRobin(16, 3))) == "BINS_DIFFER")
  }

  test("moves that cannot be are refused by name") {
    assert(condition(small.moved(Seq(Move(8, 0)), 18, 3)) == "UNKNOWN_BIN")
    assert(condition(small.moved(Seq(Move(-1, 0)), 18, 3)) == "UNKNOWN_BIN")
    assert(condition(small.moved(Seq(Move(0, 3)), 18, 3)) == "UNKNOWN_WORKER")
    assert(condition(small.moved(Seq(Move(0, -1)), 18, 3)) == "UNKNOWN_WORKER")
    assert(condition(small.moved(Seq(Move(0, 1), Move(0, 1)), 18, 3)) == "DUPLICATE_BIN")
    val stranded =
      intercept[InvalidPlanException.WorkerNotEmpty](small.moved(Seq(Move(2, 0)), 18, 2))
    assert(stranded.worker == 2 && stranded.bin == 5)
  }

  test("equal means equal content and equal number") {
    forAll(tables) { table =>
      val same = RoutingTable.tabulate(table.bins, table.workers, table.number)(table.workerOf)
      assert(
        same == table && same.hashCode == table.hashCode && same.contentHash == table.contentHash
      )
      val renumbered = table.moved(Nil, table.number + 1, table.workers)
      assert(renumbered != table && renumbered.contentHash == table.contentHash)
      if (table.workers < RoutingTable.WorkersMax) {
        val grown = table.moved(Nil, table.number, table.workers + 1)
        assert(grown != table && grown.contentHash != table.contentHash)
        val other = table.moved(Seq(Move(0, table.workers)), table.number, table.workers + 1)
        assert(other != grown && other.contentHash != grown.contentHash)
      }
    }
  }

  test("a table prints shortly, however many bins it has") {
    assert(small.toString == "table 17, 3 workers")
    assert(RoutingTable.roundRobin(65536, 1).toString == "table 0, 1 worker")
  }

  test("a table survives its bytes and Java serialization") {
    forAll(tables) { table =>
      assert(RoutingTable.fromBytes(table.toBytes) == table)
      val bytes = new ByteArrayOutputStream
      new ObjectOutputStream(bytes).writeObject(table)
      val copy = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject()
      assert(copy == table && copy.asInstanceOf[RoutingTable].contentHash == table.contentHash)
    }
    for (
      (bins, workers) <- Seq(
        (1, 1),
        (65536, 1),
        (65536, 65536),
        (65536, 65535),
        (1, 65536),
        (65536, 257)
      )
    ) {
      val table = random(bins, workers, seed = bins + workers).moved(Nil, Long.MaxValue, workers)
      assert(RoutingTable.fromBytes(table.toBytes) == table)
    }
  }

  test("a table is small on disk, even if random") {
    assert(random(1024, 8, seed = 1).toBytes.length == 396)
    assert(random(1024, 1024, seed = 1).toBytes.length <= 2048)
    assert(random(65536, 4096, seed = 1).toBytes.length <= 100 * 1024)
  }

  test("bytes and hash of a table stay the same from release to release") {
    // Owners 0 1 2 0 1 2 0 1 in two bits each: 00011000 01100001.
    val stored = Array[Byte](1, 0, 0, 0, 0, 0, 0, 0, 17, 3, 0, 2, 0x18, 0x61)
    assert(small.toBytes.toSeq == stored.toSeq)
    assert(RoutingTable.fromBytes(stored) == small)
    assert(small.contentHash == 497222438255409212L)
    assert(RoutingTable.roundRobin(1024, 8).contentHash == -5934696802961773053L)
  }

  test("bytes that are no table are refused by name") {
    val good = small.toBytes
    def changed(index: Int, value: Int) = good.updated(index, value.toByte)
    def reason(bytes: Array[Byte]) =
      intercept[InvalidPlanException.DamagedTable](RoutingTable.fromBytes(bytes)).reason

    for (length <- good.indices) assert(reason(good.take(length)).contains(s"$length bytes"))
    assert(reason(good :+ 0.toByte) == "it has 15 bytes where 14 belong")
    assert(reason(changed(0, 2)) == "its format is version 2 where 1 is known")
    assert(reason(changed(9, 17)) == "it has 2^17 bins where 2^16 are the most")
    assert(reason(changed(9, -1)) == "it has 2^-1 bins where 2^16 are the most")
    assert(reason(changed(9, 16)).contains("16396 belong"))
    assert(reason(changed(12, 0xff)) == "bin 0 belongs to worker 3 where 2 is the last")
    val odd = RoutingTable.roundRobin(bins = 2, workers = 3).toBytes
    assert(
      reason(odd.updated(12, (odd(12) | 1).toByte)) == "its last byte is not filled up with zeros"
    )
  }

  test("damaged bytes give a table or a named error, never anything else") {
    forAll(tables, minSuccessful(300)) { table =>
      val bytes = table.toBytes
      val position = (table.contentHash & Int.MaxValue).toInt
      bytes(position % bytes.length) = (position >>> 8).toByte
      try assert(RoutingTable.fromBytes(bytes).toBytes.toSeq == bytes.toSeq)
      catch { case e: InvalidPlanException => assert(e.condition == "DAMAGED_TABLE") }
    }
  }
}
