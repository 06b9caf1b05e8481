// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.DamagedFileException
import io.megaphone.plan.{Move, Step, TransferMode}
import io.megaphone.routing.RoutingTable

class LogRecordFormatSuite extends AnyFunSuite {
  private val table = RoutingTable.roundRobin(16, 3)
  private val groups = Vector(
    Group(Vector(Operator(0, "dedupe", Vector("default")), Operator(1, "symmetricHashJoin", Vector("left", "right"))), 3),
    Group(Vector(Operator(2, "transformWithStateExec", Vector("default"), Vector("count", "$ttl_count"))), 1, isMovable = false)
  )

  private val records = Vector[LogRecord](
    LogRecord.Started("run", 0, 2, 16, groups, Map(0L -> table, 2L -> RoutingTable.roundRobin(16, 1))),
    LogRecord.Submitted(
      Intention("p1", Map(0L -> Vector(Step(Vector(Move(3, 1), Move(4, 2)), 3), Step(Vector.empty, 5))), "batched(2)", TransferMode.Prepared)
    ),
    LogRecord.Submitted(Intention("p2", Map.empty, "fluid", TransferMode.Direct)),
    LogRecord.Cancelled("p1"),
    LogRecord.Cancelled("p2", Some("no room")),
    LogRecord.Sealed("run", 1L << 40, Vector(SealedStep(StepId("p1", 0, 7), Vector(Move(3, 1)))), Map(0L -> table.moved(Vector(Move(3, 1)), 9, 3))),
    LogRecord.Sealed("", 0, Vector.empty, Map.empty)
  )

  for (record <- records) test(s"reads what it wrote: $record") {
    assert(LogRecordFormat.decode("log/0", LogRecordFormat.encode(record)) == record)
  }

  test("every changed bit and every cut is damage, and names the file") {
    for (record <- records) {
      val bytes = LogRecordFormat.encode(record)
      for (bit <- 0 until bytes.length * 8) {
        val changed = bytes.clone()
        changed(bit / 8) = (changed(bit / 8) ^ (1 << (bit % 8))).toByte
        assert(intercept[DamagedFileException](LogRecordFormat.decode("log/5", changed)).file == "log/5")
      }
      for (length <- bytes.indices) assert(intercept[DamagedFileException](LogRecordFormat.decode("log/5", bytes.take(length))).file == "log/5")
    }
  }
}
