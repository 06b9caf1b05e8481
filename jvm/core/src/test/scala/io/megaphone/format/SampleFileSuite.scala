// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.log.{BinLog, Bytes}
import io.megaphone.log.Bytes.Bytes

/** Files once written, which are kept in the test resources, stay readable for ever, and today's
  * writer still writes the same bytes. See [[SampleFile]].
  */
class SampleFileSuite extends AnyFunSuite {
  import SampleFile._

  private def resource(version: Int, name: FileName): Array[Byte] = {
    val path = s"/format/v$version/$name"
    val in = getClass.getResourceAsStream(path)
    assert(in != null, s"the test resource $path is missing: see SampleFile")
    try in.readAllBytes()
    finally in.close()
  }
  private def reader(version: Int, name: FileName): DeltaFile.Reader =
    new DeltaFile.Reader(new BytesSource(name.toString, resource(version, name)))

  private def put(family: Int, key: String, value: String): Bytes =
    Bytes.putRecord(family, Bytes.of(key), Bytes.of(value))
  private def remove(family: Int, key: String): Bytes = Bytes.removeRecord(family, Bytes.of(key))

  private def rebuilt(version: Int, chain: Chain): Map[(Int, String), String] = {
    val log = new BinLog
    for (frame <- chain.frames) {
      val records = reader(version, frame.file).records(frame, Compressions(Compression.None))
      log.apply(records, 0, records.length)
    }
    Bytes.replay(log.image()).map { case ((family, key), value) =>
      (family, new String(Bytes.array(key), "UTF-8")) -> new String(Bytes.array(value), "UTF-8")
    }
  }

  test("files of version 1: each frame has the records that were put and removed") {
    val expected = Map(
      First -> Vector(
        put(0, "", "the empty key") ++ put(0, "eight by", "16 bytes of value") ++
          put(3, "eight by", "another family"),
        put(0, "to be removed", "x" * 100) ++ put(0, "to be overwritten", "soon")
      ),
      Moved -> Vector(
        remove(0, "to be removed") ++ put(0, "to be overwritten", "now") ++
          put(1023, "in the last family", ""),
        put(0, "é", "ünïcödé")
      ),
      WithoutId -> Vector(remove(0, ""))
    )
    for ((name, frames) <- expected) {
      val r = reader(1, name)
      assert(
        r.footer.frames.map(f => Bytes.of(r.records(f, Compressions(Compression.None)))) == frames
      )
      assert(
        r.footer.frames.map(_.rawBytes) == frames.map(_.length) &&
          r.footer.frames.map(_.at) == frames.map(_.length).scanLeft(0)(_ + _).dropRight(1)
      )
    }
  }

  test("files of version 1: the footers have names, tables, chains, counts and previous files") {
    val (first, moved, withoutId) =
      (reader(1, First).footer, reader(1, Moved).footer, reader(1, WithoutId).footer)
    val (frame5, frame6) = (first.frames(0), first.frames(1))

    val chunk = Chunk(First, FirstWriter, 8, 264, 264, 0xdd98def7)
    assert(frame5 == Frame(5, isImage = false, chunk, 0, 96))
    assert(frame6 == Frame(6, isImage = false, chunk, 96, 168))
    val chains = Map(5 -> Chain(Vector(frame5)), 6 -> Chain(Vector(frame6)))
    assert(
      first == Footer(
        First,
        FirstWriter,
        StateName(0, ""),
        0,
        0x5eed,
        Vector(frame5, frame6),
        chains,
        Map(5 -> 3L, 6 -> 2L),
        Vector.empty,
        Vector.empty
      )
    )

    val (tail6, image7) = (moved.frames(0), moved.frames(1))
    assert((tail6.bin, tail6.isImage, image7.bin, image7.isImage) == ((6, false, 7, true)))
    val movedChains = Map(
      6 -> Chain(Vector(frame6, tail6)),
      7 -> Chain(Vector(image7))
    )
    val before = Vector(FileName(2, First.name))
    assert(
      moved == Footer(
        Moved,
        MovedWriter,
        First.name,
        1,
        -2,
        Vector(tail6, image7),
        movedChains,
        Map(6 -> 2L, 7 -> 1L),
        Vector.empty,
        before
      )
    )

    val tail5 = withoutId.frames(0)
    assert((tail5.bin, tail5.isImage) == ((5, false)))
    assert(
      withoutId == Footer(
        WithoutId,
        WithoutIdWriter,
        First.name,
        1,
        -2,
        Vector(tail5),
        Map.empty,
        Map(5 -> 2L),
        Vector(6),
        Vector(First)
      )
    )
  }

  test("files of version 1: every bin is rebuilt from its chain") {
    val (first, moved, withoutId) =
      (reader(1, First).footer, reader(1, Moved).footer, reader(1, WithoutId).footer)
    val bin5 = first.chains(5) + withoutId.frameOf(5)
    assert(
      rebuilt(1, bin5) == Map(
        (0, "eight by") -> "16 bytes of value",
        (3, "eight by") -> "another family"
      )
    )
    assert(
      rebuilt(1, moved.chains(6)) == Map(
        (0, "to be overwritten") -> "now",
        (1023, "in the last family") -> ""
      )
    )
    assert(rebuilt(1, moved.chains(7)) == Map((0, "é") -> "ünïcödé"))
  }

  test("today's writer writes exactly the bytes of the files of its format version") {
    for ((name, bytes) <- files)
      assert(
        bytes.sameElements(resource(DeltaFile.FormatVersion, name)),
        s"$name is written differently: the format has changed, so its version must change"
      )
  }
}
