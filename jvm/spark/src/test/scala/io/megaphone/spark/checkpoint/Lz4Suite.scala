// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.ByteArrayOutputStream

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{BytesSource, DeltaFile, FileName, Footer, StateName, WriterId}
import io.megaphone.testkit.BitFlips

/** Compressed chunks: what was once written stays readable, whatever the compressor's next release
  * makes of the same bytes.
  */
class Lz4Suite extends AnyFunSuite {

  /** By LZ4's block format: three bytes as they stand, twelve from three bytes back, and five as
    * they stand.
    */
  private val frozen =
    "38 61 62 63 03 00 50 76 77 78 79 7a".split(' ').map(Integer.parseInt(_, 16).toByte)
  private val raw = "abcabcabcabcabcvwxyz".getBytes

  test("a block that was written once is read for ever") {
    assert(Lz4.id == 1 && Lz4.decompress(frozen, raw.length).sameElements(raw))
  }

  test("any bytes come back, of any length, without what lies behind them") {
    val random = new Random(1)
    for (length <- Seq(0, 1, 12, 13, 64, 1000, 1 << 16, 1 << 20); isDense <- Seq(false, true)) {
      val bytes =
        Array.fill(length + 7)(if (isDense) random.nextInt(3).toByte else random.nextInt().toByte)
      val back = Lz4.decompress(Lz4.compress(bytes, length), length)
      assert(back.sameElements(bytes.take(length)))
    }
  }

  test("a block of another length is damage, as is one that is no block") {
    for (length <- Seq(0, 19, 21, 1 << 16))
      assert(intercept[Exception](Lz4.decompress(frozen, length)).getMessage.nonEmpty)
    assertThrows[Exception](Lz4.decompress(frozen.dropRight(1), raw.length))
    assertThrows[Exception](Lz4.decompress(Array.fill[Byte](12)(-1), raw.length))
  }

  test(
    "a delta file of compressed chunks names its compression, and every changed bit of a chunk " +
      "is damage that names the bin"
  ) {
    val out = new ByteArrayOutputStream
    val file = FileName(3, StateName(1, "id"))
    val writer = new DeltaFile.Writer(out, Lz4, file, WriterId(0, 1))
    writer.frame(7, isImage = true, Array.fill[Byte](4096)(5))
    writer.finish(frames =>
      Footer(
        file,
        WriterId(0, 1),
        StateName(0, ""),
        0,
        0,
        frames,
        Map.empty,
        Map(7 -> 1L),
        Vector.empty,
        Vector.empty
      )
    )
    val bytes = out.toByteArray
    def reader(of: Array[Byte]) = new DeltaFile.Reader(new BytesSource("file", of))
    val frame = reader(bytes).footer.frames.head
    assert(bytes(5) == Lz4.id && frame.chunk.storedBytes < 100)
    assert(reader(bytes).records(frame, Lz4.All).forall(_ == 5))
    val at = frame.chunk.offset.toInt
    for (changed <- BitFlips.of(bytes, at until at + frame.chunk.storedBytes))
      assert(
        intercept[DamagedFileException](reader(changed).records(frame, Lz4.All)).getMessage
          .contains("bin 7")
      )
  }
}
