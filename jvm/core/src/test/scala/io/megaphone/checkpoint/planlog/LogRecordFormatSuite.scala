// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.{DamagedFileException, NewerFormatException}
import io.megaphone.format.{Checksum, Encoder}
import io.megaphone.testkit.{Allocated, BitFlips}

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
      for (changed <- BitFlips.of(bytes))
        assert(
          intercept[DamagedFileException](LogRecordFormat.decode("log/5", changed)).file == "log/5"
        )
      for (length <- bytes.indices)
        assert(
          intercept[DamagedFileException](
            LogRecordFormat.decode("log/5", bytes.take(length))
          ).file == "log/5"
        )
    }
  }

  test("any bytes under a right checksum are a record, or damage that names the file; soon") {
    val random = new Random(7)
    def decode(body: Array[Byte]): Unit = {
      val bytes = body ++ new Encoder(4).int(Checksum.of(body)).toBytes
      val allocated = Allocated.bytesOf {
        try LogRecordFormat.decode("log/5", bytes)
        catch { case e: DamagedFileException => assert(e.file == "log/5") }
      }
      assert(allocated < (1 << 20) + 1000L * bytes.length)
    }
    val head = LogRecordFormat.encode(records.head).take(5) // up to the kind
    for (kind <- 0 to 8; length <- 0 to 200; _ <- 1 to 5)
      decode((head :+ kind.toByte) ++ random.nextBytes(length))
    for (record <- records) {
      val body = LogRecordFormat.encode(record).dropRight(4)
      for (at <- 5 until body.length; _ <- 1 to 10) {
        val changed = body.clone()
        for (i <- at until math.min(body.length, at + 1 + random.nextInt(10)))
          changed(i) = if (random.nextInt(3) == 0) -1 else random.nextInt().toByte
        decode(changed)
        decode(changed.take(at + 1 + random.nextInt(body.length - at)))
      }
    }
  }
}
