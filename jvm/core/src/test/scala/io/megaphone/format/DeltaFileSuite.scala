// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.io.ByteArrayOutputStream

import scala.collection.mutable

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.log.{BinLog, Bytes}

/** What is written to delta files is read back, frame by frame and, by the chains of a footer, across files. */
class DeltaFileSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import Files._

  private val compressions = Gen.oneOf(Compression.None, Deflate)

  /** Records as far as a file knows: bytes. Some compress well, some not at all. */
  private val blocks: Gen[(Int, Boolean, Array[Byte])] = for {
    bin <- Gen.choose(0, 70000)
    isImage <- Gen.oneOf(true, false)
    length <- Gen.frequency(1 -> Gen.const(0), 4 -> Gen.choose(0, 100), 2 -> Gen.choose(0, 5000))
    seed <- Gen.long
    isPlain <- Gen.oneOf(true, false)
  } yield (bin, isImage, if (isPlain) Array.fill[Byte](length)(seed.toByte) else Bytes.random(length, seed))

  test("any footer comes back as it was") {
    forAll(footers, minSuccessful(300)) { footer =>
      val encoder = new Encoder
      footer.encode(encoder)
      val in = new Decoder("f", encoder.toBytes)
      assert(Footer.decode(in) == footer && in.remaining == 0)
    }
  }

  test("equal footers are equal bytes, in whatever order their maps were made") {
    forAll(footers) { footer =>
      val (one, other) = (new Encoder, new Encoder)
      footer.encode(one)
      val turned = footer.copy(chains = footer.chains.toSeq.reverse.toMap, keyCounts = footer.keyCounts.toSeq.reverse.toMap)
      turned.encode(other)
      assert(one.toBytes.sameElements(other.toBytes))
    }
  }

  test("any frames and any footer come back from a file as they were written") {
    forAll(Gen.listOf(blocks), footers, compressions, minSuccessful(200)) { (blocks, footer, compression) =>
      val bytes = file(compression) { writer =>
        blocks.foreach { case (bin, isImage, records) => assert(writer.frame(bin, isImage, records).rawBytes == records.length) }
        frames => footer.copy(frames = frames)
      }
      val r = reader("f", bytes)
      assert(r.footer.copy(frames = footer.frames) == footer)
      assert(r.footer.frames.map(f => (f.bin, f.isImage)) == blocks.map { case (bin, isImage, _) => (bin, isImage) })
      for ((frame, (_, _, records)) <- r.footer.frames.zip(blocks)) assert(r.records(frame, All).sameElements(records))
      val sizes = r.footer.frames.map(_.storedBytes)
      assert(r.footer.frames.map(_.offset) == sizes.scanLeft(8L)(_ + _).dropRight(1), "frames lie back to back behind the header")
    }
  }

  test("a frame is copied to another file as it lies, without unpacking it") {
    forAll(Gen.nonEmptyListOf(blocks), footers, compressions) { (blocks, footer, compression) =>
      val first = reader(
        "first",
        file(compression) { writer =>
          blocks.foreach { case (bin, isImage, records) => writer.frame(bin, isImage, records) }
          frames => footer.copy(frames = frames)
        }
      )
      val frames = first.footer.frames.reverse
      val second = reader(
        "second",
        file(compression) { writer =>
          frames.foreach(f => writer.stored(f.bin, f.isImage, first.stored(f), f.rawBytes))
          frames => footer.copy(frames = frames)
        }
      )
      for ((copy, frame) <- second.footer.frames.zip(frames)) {
        assert(copy.copy(offset = 0) == frame.copy(offset = 0))
        assert(second.records(copy, All).sameElements(first.records(frame, All)))
      }
    }
  }

  test("a file of no frames is a file") {
    val bytes = file(Compression.None)(_ => frames => { assert(frames.isEmpty); EmptyFooter })
    assert(contents("f", bytes) == Contents(EmptyFooter, Vector.empty))
    assert(EmptyFooter.referenced.isEmpty && EmptyFooter.frameOf.isEmpty)
  }

  test("the last footer's chains rebuild every bin, whichever worker wrote its frames and in whichever file") {
    val batches = Gen.nonEmptyListOf(Gen.zip(Gen.choose(0, 2), Gen.long))
    forAll(batches, compressions) { (batches, compression) =>
      val files = mutable.Map.empty[FileName, Array[Byte]]
      val logs = Vector.fill(4)(new BinLog)
      var chains = Map.empty[Int, Chain]
      var footer = EmptyFooter
      for (((worker, seed), version) <- batches.zipWithIndex) {
        val random = new scala.util.Random(seed)
        val name = FileName(worker, StateName(version.toLong + 1, s"id$version"))
        val writer = WriterId(random.nextLong(), random.nextLong())
        for (_ <- 0 until random.nextInt(40)) {
          val (log, key, value) = (logs(random.nextInt(4)), Array[Byte](random.nextInt(20).toByte), Bytes.random(random.nextInt(90), random.nextLong()))
          if (random.nextInt(3) == 0) log.remove(0, key, 0, 1) else log.put(0, key, 0, 1, value, 0, value.length)
        }
        files(name) = file(compression) { w =>
          for ((log, bin) <- logs.zipWithIndex; if log.isTouched)
            if (random.nextInt(3) == 0) w.frame(bin, isImage = true, log.image()) else w.frame(bin, isImage = false, log.tail().toBytes)
          frames => {
            for (frame <- frames) chains += frame.bin -> (chains.getOrElse(frame.bin, Chain.Empty) + FrameRef(name, writer, frame))
            val keyCounts = logs.indices.map(bin => bin -> logs(bin).keyCount.toLong).toMap
            footer = EmptyFooter.copy(file = name, writer = writer, base = footer.file.name, frames = frames, chains = chains, keyCounts = keyCounts)
            footer
          }
        }
        logs.foreach(_.settle())
      }
      val last = reader("last", files(footer.file)).footer
      assert(last == footer)
      assert(last.referenced.subsetOf(files.keySet) && last.frames.forall(f => last.frameOf(f.bin) == f && last.ref(f).file == footer.file))
      for ((bin, chain) <- last.chains) {
        val rebuilt = new BinLog
        assert(chain.refs.tail.forall(!_.frame.isImage))
        for (ref <- chain.refs) {
          val r = reader(ref.file.toString, files(ref.file))
          assert(r.footer.writer == ref.writer && r.footer.frameOf(bin) == ref.frame)
          val records = r.records(ref.frame, All)
          rebuilt.apply(records, 0, records.length)
        }
        assert(Bytes.replay(rebuilt.image()) == Bytes.replay(logs(bin).image()))
        assert(rebuilt.keyCount == last.keyCounts(bin))
      }
    }
  }

  test("a footer costs in proportion to its frames and chains: a tail of each of 1,024 bins, or a chain of two frames, takes under 20 and 40 bytes a bin") {
    val name = FileName(7, StateName(1000000, "0123456789abcdef0123456789abcdef0123"))
    val frames = Vector.tabulate(1024)(bin => Frame(bin, isImage = false, bin * 3000L, 3000, 9000, bin * 77777777))
    def size(footer: Footer): Int = { val e = new Encoder; footer.encode(e); e.size }
    val empty = size(EmptyFooter.copy(file = name))
    assert(size(EmptyFooter.copy(file = name, frames = frames)) - empty < 1024 * 20)
    val chains = frames.map(f => f.bin -> Chain(Vector(FrameRef(name, WriterId(1, 2), f), FrameRef(name.copy(worker = 9), WriterId(3, 4), f)))).toMap
    assert(size(EmptyFooter.copy(file = name, chains = chains)) - empty < 1024 * 40)
  }

  test("a writer leaves its stream open, and counts what it wrote") {
    var isClosed = false
    val out = new ByteArrayOutputStream { override def close(): Unit = isClosed = true }
    val writer = new DeltaFile.Writer(out, Compression.None)
    assert(writer.bytes == 8)
    writer.frame(1, isImage = false, new Array[Byte](100))
    assert(writer.bytes == 108)
    writer.finish(frames => EmptyFooter.copy(frames = frames))
    assert(!isClosed && writer.bytes == out.size)
  }

  private def EmptyFooter: Footer =
    Footer(FileName(0, StateName(1, "")), WriterId(0, 0), StateName(0, ""), 0, 0, Vector.empty, Map.empty, Map.empty, Vector.empty, Vector.empty)
}
