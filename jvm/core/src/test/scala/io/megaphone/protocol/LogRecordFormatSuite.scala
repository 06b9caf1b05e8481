// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.DamagedFileException

class LogRecordFormatSuite extends AnyFunSuite {
  import SamplePlanLog.records

  for (record <- records) test(s"reads what it wrote: $record") {
    assert(LogRecordFormat.decode("log/0", LogRecordFormat.encode(record)) == record)
  }

  for ((record, number) <- records.zipWithIndex) test(s"record $number of version 1, which was written once, is read for ever, and today's writer makes it") {
    val path = s"/plan-log/v1/$number"
    val in = getClass.getResourceAsStream(path)
    assert(in != null, s"the test resource $path is missing: see SamplePlanLog")
    val bytes =
      try in.readAllBytes()
      finally in.close()
    assert(LogRecordFormat.decode(path, bytes) == record)
    assert(LogRecordFormat.encode(record).sameElements(bytes), "the format has changed, so its version must")
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
