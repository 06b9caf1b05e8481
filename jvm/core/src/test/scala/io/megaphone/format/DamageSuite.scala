// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.errors.{DamagedFileException, NewerFormatException}
import io.megaphone.log.Bytes
import io.megaphone.testkit.Allocated

/** A damaged or foreign file is never read as something else: the error names the file and what was
  * expected.
  */
class DamageSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import Files._

  private val Name = "state/0/3/7_id.delta"

  /** Header bytes that have no meaning yet. */
  private val Unused = Set(6, 7)

  private val one = FileName(3, StateName(6, "id6"))
  private val other = FileName(4, StateName(5, "id5"))

  private def small(compression: Compression): Array[Byte] =
    file(compression, FileName(3, StateName(7, "id")), WriterId(1, 2)) { w =>
      w.frame(
        1,
        isImage = false,
        Bytes.array(
          Bytes.putRecord(
            0,
            Bytes.of("key"),
            Bytes.of("some value, and some more of the same value")
          )
        )
      )
      w.frame(
        900,
        isImage = true,
        Bytes.array(Bytes.putRecord(1, Bytes.of("another key"), Bytes.of("v")))
      )
      frames => {
        val chunk = Chunk(other, WriterId(5, 6), 8, 120, 240, 99)
        val frame = Frame(77, isImage = false, chunk, 0, 200)
        val chains = Map(
          1 -> Chain(Vector(frames(0))),
          77 -> Chain(Vector(frame, frame.copy(chunk = chunk.copy(file = one))))
        )
        val keyCounts = Map(1 -> 1L, 77 -> 1000L, 900 -> 1L)
        Footer(
          FileName(3, StateName(7, "id")),
          WriterId(1, 2),
          StateName(6, "id6"),
          12,
          34,
          frames,
          chains,
          keyCounts,
          Vector(8),
          Vector(one)
        )
      }
    }

  private def damaged(
      bytes: Array[Byte],
      compressions: Compressions = All
  ): DamagedFileException = {
    val e = intercept[DamagedFileException](contents(Name, bytes, compressions))
    assert(
      e.file == Name && e.getMessage.startsWith(s"The file $Name is damaged") &&
        e.expected.nonEmpty && e.found.nonEmpty
    )
    e
  }

  private def changed(bytes: Array[Byte], at: Int, to: Int): Array[Byte] = {
    val copy = bytes.clone()
    copy(at) = to.toByte
    copy
  }

  private def withWord(bytes: Array[Byte], at: Int, word: Int): Array[Byte] =
    bytes.patch(at, new Encoder().int(word).toBytes, 4)

  private val intact = Seq(
    "uncompressed frames" -> small(Compression.None),
    "compressed frames" -> small(Deflate)
  ) ++ SampleFile.files.map { case (name, bytes) => s"the sample $name" -> bytes }

  for ((which, bytes) <- intact) {
    test(s"any change of any byte, except two unused header bytes, is damage ($which)") {
      val whole = contents(Name, bytes)
      for (at <- bytes.indices; value <- 0 until 256; if bytes(at) != value.toByte) {
        val flipped = changed(bytes, at, value)
        if (Unused(at)) assert(contents(Name, flipped) == whole)
        else damaged(flipped)
      }
    }

    test(s"a file that is cut at any byte, or has bytes before or after it, is damage ($which)") {
      for (length <- bytes.indices) damaged(bytes.take(length))
      for (length <- 1 to 64) {
        damaged(bytes ++ new Array[Byte](length))
        damaged(new Array[Byte](length) ++ bytes)
        damaged(bytes.drop(length))
      }
      damaged(bytes ++ bytes)
      for (at <- 8 until bytes.length by 7) damaged(bytes.take(at) ++ bytes.drop(at + 8))
    }
  }

  test("a damaged chunk is an error naming the bin that is read; other chunks stay readable") {
    val bytes = file(Compression.None, one, WriterId(1, 2)) { w =>
      for (bin <- 1 to 3)
        w.frame(bin, isImage = true, Bytes.random(DeltaFile.ChunkBytes / 2, bin.toLong))
      frames =>
        EmptyFooter.copy(
          file = one,
          writer = WriterId(1, 2),
          frames = frames,
          keyCounts = Map(1 -> 1L, 2 -> 1L, 3 -> 1L)
        )
    }
    val frames = reader(Name, bytes).footer.frames
    assert(
      frames.map(f => (f.bin, f.chunk.offset, f.at)) == Vector(
        (1, 8L, 0),
        (2, 8L, 32768),
        (3, 65544L, 0)
      )
    )
    for (
      hit <- Seq(frames.head.chunk, frames.last.chunk);
      at <- Seq(hit.offset, hit.offset + hit.storedBytes - 1).map(_.toInt)
    ) {
      val r = reader(Name, changed(bytes, at, ~bytes(at)))
      for (frame <- frames)
        if (frame.chunk == hit) {
          val e = intercept[DamagedFileException](r.records(frame, All))
          assert(
            e.bin.contains(frame.bin) &&
              e.getMessage.contains(s"is damaged at bin ${frame.bin}: expected chunk checksum 0x")
          )
        } else r.records(frame, All)
    }
  }

  test("a foreign file of any kind and length is refused") {
    val foreign = Seq(
      "",
      "x",
      "PK\u0003\u0004" + "zip" * 30,
      "PAR1" + "parquet" * 30 + "PAR1",
      "{\"v\":1}\n" * 20,
      "\u0000" * 32,
      "\u0000" * 4096
    )
    foreign.foreach(text => damaged(text.getBytes))
    assert(
      damaged(Array.emptyByteArray).getMessage.contains("expected at least 32 bytes, found 0.")
    )
    assert(
      damaged(small(Compression.None).take(31)).getMessage
        .contains("expected at least 32 bytes, found 31.")
    )
    assert(
      damaged("PK\u0003\u0004, a zip file of no great length".getBytes).getMessage
        .contains("expected the magic number MPHD, found 0x04034b50.")
    )
    forAll(Gen.choose(0, 400), Gen.long) { (length, seed) => damaged(Bytes.random(length, seed)) }
    forAll(Gen.choose(0, 400), Gen.long)((length, seed) =>
      damaged(small(Compression.None).take(8) ++ Bytes.random(length, seed))
    )
  }

  test("a file that begins as a delta file and ends otherwise is refused") {
    assert(
      damaged(small(Compression.None) ++ "0123456789".getBytes).getMessage
        .contains("expected the magic number MPHF at the end, found 0x39383736.")
    )
  }

  test("another format version, at the beginning or at the end, is refused by number") {
    val bytes = small(Compression.None)
    for (version <- Seq(0, 2, 255))
      assert(
        damaged(changed(bytes, 4, version)).getMessage
          .endsWith(s"expected format version ${DeltaFile.FormatVersion}, found $version.")
      )
    for (version <- Seq(0, 2, -1))
      assert(
        damaged(withWord(bytes, bytes.length - 8, version)).getMessage
          .endsWith(s"expected format version ${DeltaFile.FormatVersion}, found $version.")
      )
  }

  test(
    "a file with a later version at both ends is refused as one of a later release, not as damage"
  ) {
    val bytes = small(Compression.None)
    val refused = intercept[NewerFormatException](
      contents(Name, withWord(changed(bytes, 4, 2), bytes.length - 8, 2))
    )
    assert(
      refused.getMessage == s"The file $Name has format version 2, where this release reads " +
        s"version ${DeltaFile.FormatVersion}: " +
        "use the release of spark-megaphone that wrote it, or a later one."
    )
  }

  test("an unknown compression is refused with the known ones named; the footer needs none") {
    val bytes = small(Deflate)
    assert(reader(Name, bytes).footer.frames.length == 2)
    assert(
      damaged(bytes, Compressions(Compression.None)).getMessage
        .endsWith("expected a compression among 0, found 77.")
    )
    assert(
      damaged(changed(bytes, 5, 3)).getMessage
        .endsWith("expected a compression among 0, 77, found 3.")
    )
    assert(
      contents(Name, bytes, Compressions(Compression.None, Deflate)) == contents(Name, bytes),
      "the compression for writing does not matter"
    )
  }

  test("a frame that decompresses to another length, or not at all, is damage of its bin") {
    val bytes = small(Deflate)
    val frame = reader(Name, bytes).footer.frames.head
    for (
      rawBytes <- Seq(frame.rawBytes.toInt, frame.chunk.rawBytes - 1, frame.chunk.rawBytes + 1)
    ) {
      val other = frame.copy(chunk = frame.chunk.copy(rawBytes = rawBytes))
      val e =
        intercept[DamagedFileException](reader(Name, bytes).records(other, Compressions(Strict)))
      assert(e.bin.contains(1) && e.expected == s"$rawBytes bytes of records")
    }
    val noise = file(Noise, one, WriterId(1, 2)) { w =>
      w.frame(5, isImage = false, new Array[Byte](100))
      frames =>
        EmptyFooter.copy(
          file = one,
          writer = WriterId(1, 2),
          frames = frames,
          keyCounts = Map(5 -> 1L)
        )
    }
    assert(
      damaged(noise).getMessage.contains(
        "at bin 5: expected 100 bytes of records, " +
          "found bytes that do not decompress (java.util.zip.DataFormatException"
      )
    )
  }

  /** Writes bytes that do not decompress. */
  private object Noise extends Compression {
    val id: Int = Deflate.id
    def compress(bytes: Array[Byte], length: Int): Array[Byte] = Bytes.random(50, 1)
    def decompress(bytes: Array[Byte], rawBytes: Int): Array[Byte] =
      Deflate.decompress(bytes, rawBytes)
  }

  /** Returns all bytes that it decompresses, even if more than expected. */
  private object Strict extends Compression {
    val id: Int = Deflate.id
    def compress(bytes: Array[Byte], length: Int): Array[Byte] = Deflate.compress(bytes, length)
    def decompress(bytes: Array[Byte], rawBytes: Int): Array[Byte] =
      Deflate.decompress(bytes, rawBytes + 10)
  }

  test("a frame of another file is refused by its place or its checksum") {
    val bytes = small(Compression.None)
    val r = reader(Name, bytes)
    val frame = r.footer.frames.head
    val chunk = frame.chunk
    val offsets = Seq(
      0L,
      7L,
      -1L,
      Long.MaxValue,
      bytes.length.toLong,
      bytes.length - 24L - chunk.storedBytes + 1
    )
    val lengths = Seq(-1, bytes.length, Int.MaxValue)
    for (
      c <- offsets.map(o => chunk.copy(offset = o)) ++ lengths.map(n => chunk.copy(storedBytes = n))
    ) {
      val e = intercept[DamagedFileException](r.records(frame.copy(chunk = c), All))
      assert(
        e.file == Name && e.bin.contains(1) && e.found == s"a file of ${bytes.length} bytes",
        c
      )
    }
    for (
      c <- Seq(
        chunk.copy(offset = chunk.offset + 1),
        chunk.copy(storedBytes = chunk.storedBytes - 1),
        chunk.copy(checksum = 0)
      )
    )
      assert(
        intercept[DamagedFileException](r.records(frame.copy(chunk = c), All)).expected
          .startsWith("chunk checksum")
      )
    for (
      (at, rawBytes) <- Seq(
        (-1, 1),
        (0, -1),
        (1, chunk.rawBytes),
        (Int.MaxValue, 1),
        (0, Int.MaxValue)
      )
    )
      assert(
        intercept[DamagedFileException](
          r.records(frame.copy(at = at, rawBytes = rawBytes), All)
        ).found == s"a chunk of ${chunk.rawBytes} bytes"
      )
  }

  test(
    "changed bytes of a footer are refused or make another footer, " +
      "and take memory in proportion to their number"
  ) {
    val valid = footers.map { footer =>
      val encoder = new Encoder
      footer.encode(encoder)
      encoder.toBytes
    }
    def decode(bytes: Array[Byte]): Unit = {
      val allocated = Allocated.bytesOf {
        try { val _ = Footer.decode(new Decoder(Name, bytes)) }
        catch { case e: DamagedFileException => assert(e.file == Name) }
      }
      assert(allocated < (1 << 20) + 1000L * bytes.length, s"for ${bytes.length} bytes")
    }
    forAll(
      valid,
      Gen.listOf(Gen.zip(Gen.choose(0, 1 << 20), Gen.choose(0, 255))),
      minSuccessful(300)
    ) { (bytes, flips) =>
      flips.foreach { case (at, value) => bytes(at % bytes.length) = value.toByte }
      decode(bytes)
    }
    forAll(Gen.choose(0, 300), Gen.long, minSuccessful(500))((length, seed) =>
      decode(Bytes.random(length, seed))
    )
  }
}
