// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.{DamagedFileException, NewerFormatException}
import io.megaphone.format.{Checksum, Encoder}

class LogRecordFormatSuite extends AnyFunSuite {
  import SamplePlanLog.records

  for ((record, number) <- records.zipWithIndex) test(s"reads what it wrote: $number, $record") {
    assert(LogRecordFormat.decode("log/0", LogRecordFormat.encode(record)) == record)
  }

  for ((record, number) <- records.zipWithIndex)
    test(
      s"record $number of version 1 is read for ever, and today's writer makes it"
    ) {
      val path = s"/plan-log/v1/$number"
      val in = getClass.getResourceAsStream(path)
      assert(in != null, s"the test resource $path is missing: see SamplePlanLog")
      val bytes =
        try in.readAllBytes()
        finally in.close()
      assert(LogRecordFormat.decode(path, bytes) == record)
      assert(
        LogRecordFormat.encode(record).sameElements(bytes),
        "the format has changed, so its version must"
      )
    }

  test(
    "a record of a later version is no damage: the sentence says to use the release that wrote it"
  ) {
    val bytes = LogRecordFormat.encode(records.head)
    bytes(4) = (LogRecordFormat.FormatVersion + 1).toByte
    val later =
      bytes.dropRight(4) ++ new Encoder(4).int(Checksum.of(bytes, 0, bytes.length - 4)).toBytes
    val refused = intercept[NewerFormatException](LogRecordFormat.decode("log/5", later))
    assert(
      refused.getMessage.startsWith(
        "The file log/5 has format version 2, where this release reads version 1: use the release"
      )
    )
  }

  test("every changed bit and every cut is damage, and names the file") {
    for (record <- records) {
      val bytes = LogRecordFormat.encode(record)
      for (bit <- 0 until bytes.length * 8) {
        val changed = bytes.clone()
        changed(bit / 8) = (changed(bit / 8) ^ (1 << (bit % 8))).toByte
        assert(
          intercept[DamagedFileException](LogRecordFormat.decode("log/5", changed)).file == "log/5"
        )
      }
      for (length <- bytes.indices)
        assert(
          intercept[DamagedFileException](
            LogRecordFormat.decode("log/5", bytes.take(length))
          ).file == "log/5"
        )
    }
  }
}
