// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.io.ByteArrayOutputStream

import scala.collection.mutable

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.megaphone.errors.DamagedFileException
import io.megaphone.log.{BinLog, Bytes}

/** Frames written to delta files are read back, one by one and, by the chains of a footer, across
  * files.
  */
class DeltaFileSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  import Files._

  private val compressions = Gen.oneOf(Compression.None, Deflate)

  /** Bin, kind and raw bytes of a frame. Some bytes compress well, some not at all. */
  private val contents: Gen[(Int, Boolean, Array[Byte])] = for {
    bin <- Gen.choose(0, 70000)
    isImage <- Gen.oneOf(true, false)
    length <- Gen.frequency(1 -> Gen.const(0), 4 -> Gen.choose(0, 100), 2 -> Gen.choose(0, 5000))
    seed <- Gen.long
    isPlain <- Gen.oneOf(true, false)
  } yield (
    bin,
    isImage,
    if (isPlain) Array.fill[Byte](length)(seed.toByte) else Bytes.random(length, seed)
  )

  test("any footer is read as it was written") {
    forAll(footers, minSuccessful(300)) { footer =>
      val encoder = new Encoder
      footer.encode(encoder)
      val in = new Decoder("f", encoder.toBytes)
      assert(Footer.decode(in) == footer && in.remaining == 0)
    }
  }

  test("equal footers are equal bytes, whatever the order of their maps") {
    forAll(footers) { footer =>
      val (one, other) = (new Encoder, new Encoder)
      footer.encode(one)
      val turned = footer.copy(
        chains = footer.chains.toSeq.reverse.toMap,
        keyCounts = footer.keyCounts.toSeq.reverse.toMap
      )
      turned.encode(other)
      assert(one.toBytes.sameElements(other.toBytes))
    }
  }

  test("any frames and any footer are read from a file as they were written") {
    forAll(Gen.listOf(contents), footers, compressions, minSuccessful(200)) {
      (contents, footer, compression) =>
        val bytes = file(compression, footer.file, footer.writer) { writer =>
          contents.foreach { case (bin, isImage, records) => writer.frame(bin, isImage, records) }
          frames =>
            footer.copy(
              frames = frames,
              keyCounts = counted(frames, footer.chains, Seq(7, 0, Long.MaxValue))
            )
        }
        val r = reader("f", bytes)
        assert(r.footer.copy(frames = footer.frames, keyCounts = footer.keyCounts) == footer)
        assert(r.footer.frames.map(f => (f.bin, f.isImage)) == contents.map {
          case (bin, isImage, _) => (bin, isImage)
        })
        for ((frame, (_, _, records)) <- r.footer.frames.zip(contents))
          assert(r.records(frame, All).sameElements(records))
        val found = r.footer.frames.map(_.chunk).distinct
        assert(
          found.map(_.offset) == found.map(_.storedBytes).scanLeft(8L)(_ + _).dropRight(1),
          "chunks lie back to back after the header"
        )
    }
  }

  test("small frames share a chunk, a large frame has its own") {
    val sizes = Seq(10, 0, 30000, 35526, 1, 65535, 0, 65537, 200000, 5, 65531, 0)
    val bytes = file(Compression.None, EmptyFooter.file, EmptyFooter.writer) { writer =>
      for ((size, bin) <- sizes.zipWithIndex)
        writer.frame(bin, isImage = false, Bytes.random(size, bin.toLong))
      frames => EmptyFooter.copy(frames = frames, keyCounts = counted(frames, Map.empty, Seq(1)))
    }
    val r = reader("f", bytes)
    val shared = r.footer.frames
      .map(_.chunk)
      .distinct
      .map(chunk => r.footer.frames.filter(_.chunk == chunk).map(_.bin))
    assert(
      shared == Vector(Vector(0, 1, 2, 3), Vector(4, 5, 6), Vector(7), Vector(8), Vector(9, 10, 11))
    )
    for (frame <- r.footer.frames.reverse)
      assert(r.records(frame, All).sameElements(Bytes.random(sizes(frame.bin), frame.bin.toLong)))
  }

  test("tails and images written from logs equal frames of their bytes") {
    def filled(keys: Int) = {
      val log = new BinLog
      for (i <- 0 until keys) {
        val key = s"key $i".getBytes
        log.put(0, key, 0, key.length, Bytes.random(90, i.toLong), 0, 90)
      }
      log
    }
    val logs = Seq(10, 0, 2000, 0, 3, 300, 900, 1, 500).map(filled)
    for (
      compression <- Seq(Compression.None, Deflate);
      imaged <- Seq[Int => Boolean](_ % 2 == 0, _ % 2 == 1)
    ) {
      def bytes(write: DeltaFile.Writer => (BinLog, Int) => Unit) =
        file(compression, EmptyFooter.file, EmptyFooter.writer) { writer =>
          for ((log, bin) <- logs.zipWithIndex) write(writer)(log, bin)
          frames =>
            EmptyFooter.copy(frames = frames, keyCounts = counted(frames, Map.empty, Seq(1)))
        }
      val straight =
        bytes(w => (log, bin) => if (imaged(bin)) w.image(bin, log) else w.tail(bin, log.tail()))
      val byFrames = bytes(w =>
        (log, bin) =>
          w.frame(bin, imaged(bin), if (imaged(bin)) log.image() else log.tail().toBytes)
      )
      assert(straight.sameElements(byFrames))
    }
  }

  test("a file without frames is valid") {
    val bytes = file(Compression.None, EmptyFooter.file, EmptyFooter.writer)(_ =>
      frames => {
        assert(frames.isEmpty)
        EmptyFooter
      }
    )
    assert(Files.contents("f", bytes) == Contents(EmptyFooter, Vector.empty))
    assert(EmptyFooter.referenced.isEmpty && EmptyFooter.frameOf.isEmpty)
  }

  test("the last footer's chains rebuild every bin, from any worker's frames in any file") {
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
          val (log, key, value) = (
            logs(random.nextInt(4)),
            Array[Byte](random.nextInt(20).toByte),
            Bytes.random(random.nextInt(90), random.nextLong())
          )
          if (random.nextInt(3) == 0) log.remove(0, key, 0, 1)
          else log.put(0, key, 0, 1, value, 0, value.length)
        }
        files(name) = file(compression, name, writer) { w =>
          for ((log, bin) <- logs.zipWithIndex; if log.isTouched)
            if (random.nextInt(3) == 0) w.frame(bin, isImage = true, log.image())
            else w.frame(bin, isImage = false, log.tail().toBytes)
          frames => {
            for (frame <- frames)
              chains += frame.bin -> (chains.getOrElse(frame.bin, Chain.Empty) + frame)
            val keyCounts = chains.keys.map(bin => bin -> logs(bin).keyCount.toLong).toMap
            footer = EmptyFooter.copy(
              file = name,
              writer = writer,
              base = footer.file.name,
              frames = frames,
              chains = chains,
              keyCounts = keyCounts
            )
            footer
          }
        }
        logs.foreach(_.settle())
      }
      val last = reader("last", files(footer.file)).footer
      assert(last == footer)
      assert(
        last.referenced.subsetOf(files.keySet) && last.frames.forall(f =>
          last.frameOf(f.bin) == f && f.file == footer.file
        )
      )
      for ((bin, chain) <- last.chains) {
        val rebuilt = new BinLog
        assert(chain.frames.tail.forall(!_.isImage))
        for (frame <- chain.frames) {
          val r = reader(frame.file.toString, files(frame.file))
          assert(r.footer.writer == frame.chunk.writer && r.footer.frameOf(bin) == frame)
          val records = r.records(frame, All)
          rebuilt.apply(records, 0, records.length)
        }
        assert(Bytes.replay(rebuilt.image()) == Bytes.replay(logs(bin).image()))
        assert(rebuilt.keyCount == last.keyCounts(bin))
      }
    }
  }

  test("the records of a large bin are written and read in pieces of whole records") {
    val log = new BinLog
    for (i <- 0 until 200) {
      val key = s"key $i".getBytes
      val length = if (i == 100) 5000 else 90 // one record is larger than a piece
      log.put(i % 2 * 512, key, 0, key.length, Bytes.random(length, i.toLong), 0, length)
    }
    for (compression <- Seq(Compression.None, Deflate); isImage <- Seq(true, false)) {
      val out = new ByteArrayOutputStream
      val name = EmptyFooter.file
      val writer = new DeltaFile.Writer(out, compression, name, EmptyFooter.writer, 1000)
      def add(bin: Int) = if (isImage) writer.image(bin, log) else writer.tail(bin, log.tail())
      writer.frame(1, isImage = true, Bytes.random(80, 1))
      Seq(2, 3).foreach(add)
      writer.frame(4, isImage = true, Bytes.random(80, 4))
      val footer = writer.finish { frames =>
        val chains = frames.map(f => f.bin -> Chain(Seq(f))).toMap
        EmptyFooter.copy(
          frames = frames,
          chains = chains,
          keyCounts = counted(frames, chains, Seq(1))
        )
      }
      val r = reader("f", out.toByteArray)
      assert(r.footer == footer && r.footer.frames.map(_.bin) == Vector(1, 2, 3, 4))
      for (bin <- Seq(2, 3); frame = r.footer.frameOf(bin)) {
        val pieces = r.pieces(frame, All).toVector
        assert(pieces.size > 10 && pieces.size == frame.chunk.pieces.size)
        assert(pieces.count(_.length > 1000) == 1, "only the large record has more than a piece")
        assert(pieces.map(_.length.toLong).sum == frame.rawBytes)
        assert(frame.chunk.storedBytesOfAll < out.size / 2 && frame.isImage == isImage)
        val rebuilt = new BinLog
        pieces.foreach(piece => rebuilt.apply(piece, 0, piece.length))
        assert(Bytes.replay(rebuilt.image()) == Bytes.replay(log.image()))
        val chain = r.footer.chains(bin)
        val bytes = if (isImage) chain.imageBytes else chain.tailBytes
        assert(chain.frames == Vector(frame) && bytes == frame.rawBytes)
        assert((chain + r.footer.frames.last.copy(bin = bin, isImage = false)).init == chain)
      }
    }
  }

  test("frames of five gibibytes, and chains of them, are listed as they are") {
    val bytes = 5L << 30
    def pieces(from: Long) = {
      val all = Vector.tabulate((bytes / DeltaFile.PieceBytes).toInt) { i =>
        val offset = from + i.toLong * DeltaFile.PieceBytes
        val length = DeltaFile.PieceBytes
        Chunk(EmptyFooter.file, EmptyFooter.writer, offset, length, length, checksum = i)
      }
      all.head.copy(more = all.tail)
    }
    val from = DeltaFile.HeaderBytes.toLong
    val image = Frame(0, isImage = true, pieces(from), 0, bytes)
    val tail = Frame(0, isImage = false, pieces(from + bytes), 0, bytes)
    val footer = EmptyFooter.copy(
      frames = Vector(image, tail.copy(bin = 1)),
      chains = Map(0 -> Chain(Seq(image, tail))),
      keyCounts = Map(0 -> 1L, 1 -> 1L)
    )
    val encoder = new Encoder
    footer.encode(encoder)
    val read = Footer.decode(new Decoder("f", encoder.toBytes))
    assert(read == footer)
    for (frame <- read.frames ++ read.chains(0).frames)
      assert(frame.rawBytes == bytes && frame.chunk.storedBytesOfAll == bytes)
    val chain = read.chains(0)
    assert(chain.imageBytes == bytes && chain.tailBytes == bytes && chain.init.tailBytes == 0)
  }

  test("a frame whose pieces do not fit together is damage") {
    val out = new ByteArrayOutputStream
    val log = new BinLog
    for (i <- 0 until 100) log.put(0, Array(i.toByte), 0, 1, Bytes.random(90, i.toLong), 0, 90)
    val writer =
      new DeltaFile.Writer(out, Compression.None, EmptyFooter.file, EmptyFooter.writer, 1000)
    writer.image(5, log)
    val footer =
      writer.finish(frames => EmptyFooter.copy(frames = frames, keyCounts = Map(5 -> 100L)))
    val frame = footer.frames.head
    val pieces = frame.chunk.pieces
    def decoded(chunk: Chunk, rawBytes: Long): Footer = {
      val encoder = new Encoder
      footer.copy(frames = Vector(frame.copy(chunk = chunk, rawBytes = rawBytes))).encode(encoder)
      Footer.decode(new Decoder("f", encoder.toBytes))
    }
    assert(decoded(frame.chunk, frame.rawBytes).frames == footer.frames)
    val shifted = pieces(1).copy(offset = pieces(1).offset + 8)
    for (
      (chunk, rawBytes) <- Seq(
        frame.chunk -> (frame.rawBytes + 1), // beyond the last piece
        frame.chunk -> (frame.rawBytes - 1), // ends within a piece
        frame.chunk.copy(more = Vector.empty) -> frame.rawBytes,
        frame.chunk.copy(more = shifted +: pieces.drop(2)) -> frame.rawBytes
      )
    ) assertThrows[DamagedFileException](decoded(chunk, rawBytes))
  }

  test(
    "a footer of 1,024 bins takes under 8 bytes for a tail of each, " +
      "and under 20 for a chain of two frames"
  ) {
    val name = FileName(7, StateName(1000000, "0123456789abcdef0123456789abcdef0123"))
    def frames(of: FileName, writer: WriterId): Vector[Frame] = {
      val chunks = Vector.tabulate(1024 / 64)(i =>
        Chunk(of, writer, i * 30000L, 30000, 64 * 1000, i * 77777777)
      )
      Vector.tabulate(1024)(bin =>
        Frame(bin, isImage = false, chunks(bin / 64), bin % 64 * 1000, 1000)
      )
    }
    def size(footer: Footer): Int = {
      val e = new Encoder
      footer.encode(e)
      e.size
    }
    val empty = size(EmptyFooter.copy(file = name))
    val own = frames(name, WriterId(1, 2))
    val counts = own.map(_.bin -> 1000000L).toMap
    assert(size(EmptyFooter.copy(file = name, frames = own, keyCounts = counts)) - empty < 1024 * 8)
    val chains = own
      .zip(frames(name.copy(worker = 9), WriterId(3, 4)))
      .map { case (one, other) => one.bin -> Chain(Vector(one, other)) }
      .toMap
    assert(
      size(EmptyFooter.copy(file = name, chains = chains, keyCounts = counts)) - empty < 1024 * 20
    )
  }

  test("a writer leaves its stream open, and counts the bytes that it wrote") {
    var isClosed = false
    val out = new ByteArrayOutputStream { override def close(): Unit = isClosed = true }
    val writer = new DeltaFile.Writer(out, Compression.None, EmptyFooter.file, EmptyFooter.writer)
    assert(writer.bytes == 8)
    for (bin <- 1 to 2)
      writer.frame(bin, isImage = false, new Array[Byte](DeltaFile.ChunkBytes - 1))
    assert(writer.bytes == 8 + DeltaFile.ChunkBytes - 1)
    writer.finish(frames =>
      EmptyFooter.copy(frames = frames, keyCounts = counted(frames, Map.empty, Seq(1)))
    )
    assert(!isClosed && writer.bytes == out.size)
  }
}
