// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.io.ByteArrayOutputStream
import java.util.zip.{Deflater, Inflater}

import org.scalacheck.Gen

/** Delta files in memory, and random footers. */
object Files {

  /** A compression of the JDK's own, for tests. */
  object Deflate extends Compression {
    val id = 77
    def compress(bytes: Array[Byte]): Array[Byte] = {
      val deflater = new Deflater
      deflater.setInput(bytes)
      deflater.finish()
      val out = new Array[Byte](bytes.length + bytes.length / 8 + 64)
      val length = deflater.deflate(out)
      assert(deflater.finished)
      deflater.end()
      java.util.Arrays.copyOf(out, length)
    }
    def decompress(bytes: Array[Byte], rawBytes: Int): Array[Byte] = {
      val inflater = new Inflater
      try {
        inflater.setInput(bytes)
        val out = new Array[Byte](rawBytes)
        var length = 0
        while (length < rawBytes && !inflater.needsInput) length += inflater.inflate(out, length, rawBytes - length)
        java.util.Arrays.copyOf(out, length)
      } finally inflater.end()
    }
  }

  /** Knows both. */
  val All: Compressions = Compressions(Deflate)

  /** Writes a file by `write`, which is given the writer and gives the footer to end with. */
  def file(compression: Compression)(write: DeltaFile.Writer => Vector[Frame] => Footer): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val writer = new DeltaFile.Writer(out, compression)
    val footer = write(writer)
    writer.finish(footer)
    assert(writer.bytes == out.size)
    out.toByteArray
  }

  def reader(name: String, bytes: Array[Byte]): DeltaFile.Reader = new DeltaFile.Reader(new BytesSource(name, bytes))

  /** All that a file holds: its footer, and the records of its own frames. */
  final case class Contents(footer: Footer, records: Vector[Seq[Byte]])

  /** Reads every byte of a file that means anything. */
  def contents(name: String, bytes: Array[Byte], compressions: Compressions = All): Contents = {
    val r = reader(name, bytes)
    Contents(r.footer, r.footer.frames.map(f => r.records(f, compressions).toSeq))
  }

  private val counts = Gen.frequency(4 -> Gen.choose(0, 200), 1 -> Gen.choose(0, Int.MaxValue), 1 -> Gen.const(Int.MaxValue))
  private val longs = Gen.frequency(4 -> Gen.choose(0L, 1000L), 1 -> Gen.choose(0L, Long.MaxValue), 1 -> Gen.const(Long.MaxValue))
  private val anyLongs = Gen.frequency(4 -> Gen.long, 1 -> Gen.oneOf(0L, -1L, Long.MinValue, Long.MaxValue))

  val names: Gen[StateName] = for {
    version <- longs
    id <- Gen.frequency(2 -> Gen.const(StateName.FixedId), 3 -> Gen.uuid.map(_.toString), 1 -> Gen.oneOf("ü", "名", "a b", "x" * 300))
  } yield StateName(version, id)
  val fileNames: Gen[FileName] = Gen.zip(counts, names).map { case (worker, name) => FileName(worker, name) }
  val writers: Gen[WriterId] = Gen.zip(anyLongs, anyLongs).map { case (high, low) => WriterId(high, low) }

  def frames(bin: Int): Gen[Frame] = for {
    isImage <- Gen.oneOf(true, false)
    offset <- longs
    stored <- counts
    raw <- counts
    checksum <- Gen.oneOf(Gen.choose(Int.MinValue, Int.MaxValue), Gen.oneOf(0, -1))
  } yield Frame(bin, isImage, offset, stored, raw, checksum)

  /** Several chains point into the same few files, as they do. */
  private val chains: Gen[Map[Int, Chain]] = for {
    files <- Gen.choose(1, 5).flatMap(Gen.listOfN(_, Gen.zip(fileNames, writers)))
    bins <- Gen.oneOf(Gen.choose(0, 4), Gen.choose(0, 50)).flatMap(Gen.listOfN(_, counts)) // maps of up to four keep the order they were made in
    chains <- Gen.sequence[Vector[(Int, Chain)], (Int, Chain)](bins.map { bin =>
      Gen.choose(0, 6).flatMap(Gen.listOfN(_, Gen.zip(Gen.oneOf(files), frames(bin)))).map { refs =>
        bin -> Chain(refs.map { case ((file, writer), frame) => FrameRef(file, writer, frame) }.toVector)
      }
    })
  } yield chains.toMap

  val footers: Gen[Footer] = for {
    file <- fileNames
    writer <- writers
    base <- names
    tableNumber <- longs
    tableHash <- anyLongs
    own <- Gen.listOf(counts.flatMap(frames))
    chains <- chains
    keyCounts <- Gen.mapOf(Gen.zip(counts, longs))
    left <- Gen.listOf(counts)
    previous <- Gen.choose(0, Footer.PreviousMax).flatMap(Gen.listOfN(_, names))
  } yield {
    val files = previous.map(FileName(file.worker, _)).toVector
    Footer(file, writer, base, tableNumber, tableHash, own.toVector, chains, keyCounts, left.toVector, files)
  }
}
