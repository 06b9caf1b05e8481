// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.errors.DamagedFileException

/** The primitives of all formats are read as they were written, their bytes are as specified, and a
  * decoder never reads past its end.
  */
class EncodingSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def decoder(bytes: Array[Byte]) = new Decoder("some.file", bytes)
  private def hex(encoder: Encoder): String = encoder.toBytes.map(b => f"$b%02x").mkString
  private def damaged(body: => Any): DamagedFileException = {
    val e = intercept[DamagedFileException](body)
    assert(
      e.file == "some.file" && e.getMessage.contains("The file some.file is damaged: expected ")
    )
    e
  }

  /** A value, and how to write and to read it. */
  private final class Item(val write: Encoder => Unit, val read: Decoder => Any, val value: Any) {
    override def toString: String = value.toString
  }

  private val longs = Gen.oneOf(
    Gen.long,
    Gen.choose(0, 63).map(1L << _),
    Gen.choose(0, 63).map(-1L >>> _),
    Gen.choose(-200L, 200L)
  )
  private val items: Gen[Item] = Gen.oneOf(
    Gen.choose(0, 255).map(v => new Item(_.byte(v), _.byte(), v)),
    longs.map(v => new Item(_.int(v.toInt), _.int(), v.toInt)),
    longs.map(v => new Item(_.long(v), _.long(), v)),
    longs.map(v => new Item(_.varint(v), _.varint(), v)),
    Gen.choose(0, Int.MaxValue).map(v => new Item(_.varint(v.toLong), _.count(), v)),
    Gen.oneOf(true, false).map(v => new Item(_.boolean(v), _.boolean(), v)),
    Gen
      .oneOf(
        Gen.alphaNumStr,
        Gen.listOf(Gen.oneOf("ä", "語", "𝄞", "\u0000", "x" * 100)).map(_.mkString)
      )
      .map(v => new Item(_.string(v), _.string(), v)),
    Gen
      .listOf(Gen.choose(-128, 127).map(_.toByte))
      .map(v => new Item(_.blob(v.toArray), _.blob().toList, v)),
    Gen.listOf(longs).map(v => new Item(e => e.seq(v)(e.long(_)), d => d.seq(d.long()).toList, v)),
    Gen
      .option(longs)
      .map(v => new Item(e => e.option(v)(e.varint(_)), d => d.option(d.varint()), v))
  )

  test("any sequence of values is read as it was written; cut anywhere, it is damage") {
    forAll(Gen.listOf(items), Gen.choose(0, 300)) { (items, capacity) =>
      val encoder = new Encoder(capacity)
      items.foreach(_.write(encoder))
      val bytes = encoder.toBytes
      assert(encoder.size == bytes.length)
      val in = decoder(bytes)
      assert(items.map(_.read(in)) == items.map(_.value) && in.remaining == 0)
      for (length <- bytes.indices by math.max(1, bytes.length / 20)) {
        val short = decoder(bytes.take(length))
        damaged(items.foreach(_.read(short)))
      }
    }
  }

  test("a decoder of a range does not read beyond it") {
    val bytes = new Encoder().int(1).int(2).int(3).toBytes
    val in = new Decoder("some.file", bytes, 4, 8)
    assert(in.remaining == 4 && in.int() == 2 && in.remaining == 0)
    damaged(in.byte())
  }

  test(
    "words are little-endian; integers of variable length have seven bits a byte, lowest first"
  ) {
    assert(hex(new Encoder().int(0x01020304)) == "04030201")
    assert(hex(new Encoder().long(0x0102030405060708L)) == "0807060504030201")
    assert(hex(new Encoder().byte(255).boolean(true).boolean(false)) == "ff0100")
    assert(Seq(0L, 1L, 127L).map(v => hex(new Encoder().varint(v))) == Seq("00", "01", "7f"))
    assert(
      Seq(128L, 300L, 16384L)
        .map(v => hex(new Encoder().varint(v))) == Seq("8001", "ac02", "808001")
    )
    assert(hex(new Encoder().varint(Long.MaxValue)) == "ff" * 8 + "7f")
    assert(hex(new Encoder().varint(-1)) == "ff" * 9 + "01")
    assert(hex(new Encoder().string("é")) == "02c3a9")
    assert(
      hex(new Encoder().option(Option(5L))(_ => ())) == "01" &&
        hex(new Encoder().option(Option.empty[Long])(_ => ())) == "00"
    )
  }

  test("an integer over ten bytes, a count out of range and a length beyond the end are damage") {
    assert(
      damaged(decoder(Array.fill[Byte](20)(-1)).varint()).getMessage.contains("at most ten bytes")
    )
    damaged(decoder(Array.fill[Byte](10)(-128) :+ 1.toByte).varint())
    assert(
      damaged(decoder(new Encoder().varint(-1).toBytes).count()).getMessage
        .contains("a count between 0 and 2147483647, found -1")
    )
    assert(damaged(decoder(new Encoder().varint(1L << 31).toBytes).count()).found == "2147483648")
    assert(damaged(decoder(new Encoder().varint(8).toBytes).count(7)).found == "8")
    assert(decoder(new Encoder().varint(7).toBytes).count(7) == 7)
    damaged(decoder(new Encoder().varint(Int.MaxValue.toLong).toBytes).blob())
    damaged(decoder(new Encoder().varint(3).byte(1).toBytes).string())
  }

  test("a damaged count of elements takes memory for no more than the remaining bytes") {
    val bytes = new Encoder().varint(Int.MaxValue.toLong).int(0).toBytes
    assert(damaged {
      val in = decoder(bytes)
      in.seq(in.byte())
    }.expected == s"a count between 0 and ${bytes.length}")
  }

  test("the checksum is CRC-32C, of a range or of the whole array") {
    val bytes = "..123456789..".getBytes
    assert(Checksum.of(bytes, 2, 9) == 0xe3069283) // the check value of the CRC's definition
    assert(
      Checksum.of(bytes, 0, bytes.length) == Checksum.of(bytes) &&
        Checksum.of(new Array[Byte](0)) == 0
    )
  }
}
