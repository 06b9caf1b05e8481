// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** A file's name is its worker, its version and, under checkpoint format v2, its unique id. A file
  * of any other name is foreign.
  */
class NamesSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  test("names are written as documented") {
    assert(FileName(3, StateName(7, StateName.FixedId)).toString == "3/7.delta")
    assert(FileName(0, StateName(12, "0b9c-1")).toString == "0/12_0b9c-1.delta")
  }

  test("a name that was written is parsed back to itself") {
    val ids = Gen.oneOf(
      Gen.const(StateName.FixedId),
      Gen.uuid.map(_.toString),
      Gen.identifier,
      Gen.const("a_b")
    )
    forAll(Gen.choose(0, 5000), Gen.choose(0L, 999999999999999999L), ids) { (worker, version, id) =>
      val name = FileName(worker, StateName(version, id))
      assert(FileName.parse(worker, name.toString.stripPrefix(s"$worker/")).contains(name))
    }
  }

  test("foreign file names, and names not exactly as written, are not parsed") {
    val others = Seq(
      "",
      "delta",
      ".delta",
      "1",
      "1.zip",
      "1.snapshot",
      "1_a.changelog",
      ".1.delta.crc",
      "1.delta.tmp",
      "2/1.delta",
      "1.deltas"
    )
    val otherwise = Seq(
      "x.delta",
      "-1.delta",
      " 1.delta",
      "1_.delta",
      "1_a.b.delta",
      "01.delta",
      "00_a.delta",
      "1234567890123456789.delta",
      "٣.delta"
    )
    for (name <- others ++ otherwise) assert(FileName.parse(0, name).isEmpty, name)
  }

  test("an image starts a new chain, a tail extends it") {
    val writer = WriterId(1, 2)
    def frame(version: Long, isImage: Boolean, raw: Int) =
      Frame(5, isImage, Chunk(FileName(0, StateName(version, "")), writer, 8, 1, raw, 0), 0, raw)
    val tails = Chain.Empty + frame(1, isImage = false, 10) + frame(2, isImage = false, 20)
    assert(
      tails.frameCount == 2 && tails.imageBytes == 0 && tails.tailBytes == 30 &&
        tails.frames.map(_.file.name.version) == Vector(1L, 2L)
    )
    val imaged = tails + frame(3, isImage = true, 7) + frame(4, isImage = false, 1)
    assert(
      imaged.frameCount == 2 && imaged.imageBytes == 7 && imaged.tailBytes == 1 &&
        imaged.frames.head.file.name.version == 3
    )
    assert(Chain(tails.frames ++ imaged.frames) == imaged)
  }
}
