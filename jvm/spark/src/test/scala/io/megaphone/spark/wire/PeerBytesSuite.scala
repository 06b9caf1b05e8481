// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import org.scalacheck.{Gen, Shrink}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{Checksum, Encoder}
import io.megaphone.testkit.{Allocated, BitFlips}
import io.megaphone.transfer.Answer

/** What no executor sends, under a checksum that is right: it is a named error, or something that
  * an executor may send. It never takes much memory.
  */
class PeerBytesSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private implicit def asItIs[A]: Shrink[A] = Shrink.shrinkAny

  /** Any bytes; most are small, as kinds and counts are. */
  private val bodies: Gen[Array[Byte]] = {
    val byte = Gen.frequency(3 -> Gen.choose(0, 4), 1 -> Gen.choose(0, 255)).map(_.toByte)
    Gen.listOf(byte).map(_.toArray)
  }
  private val sizes = Gen.oneOf(Gen.choose(0, 1000), Gen.choose(Int.MinValue, Int.MaxValue))

  private def checked(out: Encoder, bytes: Array[Byte]) = out.int(Checksum.of(bytes)).blob(bytes)

  /** Returns whether something was decoded. */
  private def isSound(bytes: Array[Byte])(decode: Array[Byte] => Any): Boolean = {
    var decoded = false
    val allocated = Allocated.bytesOf {
      try { decode(bytes); decoded = true }
      catch { case e: DamagedFileException => assert(e.getMessage.contains("another executor")) }
    }
    assert(allocated < (1 << 20) + 1000L * bytes.length)
    decoded
  }

  private def isSoundRequest(bytes: Array[Byte]) =
    isSound(bytes)(PeerBytes.answer(_)(_ => None, _ => (), _ => Answer.Gone))

  test("Answers.") {
    var decoded = 0
    forAll(bodies, Gen.oneOf(0, 1, 2), sizes, Gen.oneOf(true, false), minSuccessful(5000)) {
      (body, compression, size, isAsSaid) =>
        val rawBytes = if (isAsSaid) body.length else size
        val packed = new Encoder().byte(compression).int(rawBytes).blob(body).toBytes
        if (isSound(checked(new Encoder(), packed).toBytes)(AnswerBytes.decode)) decoded += 1
    }
    assert(decoded > 100, "some bodies are answers")
    forAll(bodies, minSuccessful(1000)) { packed =>
      isSound(checked(new Encoder(), packed).toBytes)(AnswerBytes.decode); ()
    }
  }

  test("Answers with blocks.") {
    val names = (0 until 6).map(_.toString)
    val blocks = names.map(i => i -> Array.tabulate(40 * i.toInt)(_.toByte)).toMap - "3"
    val sent = PeerBytes.answer(PeerBytes.ask(names))(
      blocks.get,
      _ => fail("no file was sent"),
      _ => fail("no question was asked")
    )
    val all = names.map(blocks.get(_).map(_.toSeq))
    def decoded(bytes: Array[Byte]) = PeerBytes.blocks(bytes).map(_.map(_.toSeq))
    assert(decoded(sent) == all)
    for (length <- sent.indices)
      isSound(sent.take(length)) { cut =>
        val some = decoded(cut)
        assert(some.length < all.length && all.startsWith(some))
      }
    // Who takes a block looks at its own checksum: here a flipped bit may make other blocks.
    BitFlips.of(sent).foreach(isSound(_)(decoded))
    var some = 0
    forAll(bodies, minSuccessful(2000))(body => if (isSound(body)(decoded)) some += 1)
    assert(some > 100, "some bodies are blocks")
  }

  test("Questions.") {
    var decoded = 0
    forAll(bodies, minSuccessful(5000)) { body =>
      // The first kinds of questions have the least before them.
      val rest = body ++ new Array[Byte](60)
      if (isSoundRequest(checked(new Encoder().byte(3), rest).toBytes)) decoded += 1
      isSoundRequest(checked(new Encoder().byte(3), body).toBytes); ()
    }
    assert(decoded > 100, "some bodies are questions")
  }

  test("Files, and requests for blocks.") {
    var decoded = 0
    forAll(bodies, bodies, minSuccessful(2000)) { (named, bytes) =>
      val rest = named ++ new Array[Byte](40)
      val file = checked(checked(new Encoder().byte(2), rest), bytes).toBytes
      if (isSoundRequest(file)) decoded += 1
      isSoundRequest(checked(checked(new Encoder().byte(2), named), bytes).toBytes)
      isSoundRequest(1.toByte +: named); ()
    }
    assert(decoded > 100, "some bodies are files")
  }
}
