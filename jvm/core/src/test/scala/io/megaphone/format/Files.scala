// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.io.ByteArrayOutputStream
import java.util.zip.{Deflater, Inflater}

import org.scalacheck.Gen

/** Delta files in memory, and random footers. */
object Files {

  /** The JDK's compression, for tests. */
  object Deflate extends Compression {
    val id = 77
    def compress(bytes: Array[Byte], length: Int): Array[Byte] = {
      val deflater = new Deflater
      deflater.setInput(bytes, 0, length)
      deflater.finish()
      val out = new Array[Byte](length + length / 8 + 64)
      val stored = deflater.deflate(out)
      assert(deflater.finished)
      deflater.end()
      java.util.Arrays.copyOf(out, stored)
    }
    def decompress(bytes: Array[Byte], rawBytes: Int): Array[Byte] = {
      val inflater = new Inflater
      try {
        inflater.setInput(bytes)
        val out = new Array[Byte](rawBytes)
        var length = 0
        while (length < rawBytes && !inflater.needsInput)
          length += inflater.inflate(out, length, rawBytes - length)
        java.util.Arrays.copyOf(out, length)
      } finally inflater.end()
    }
  }

  /** Both compressions. */
  val All: Compressions = Compressions(Deflate)

  /** Writes a file by `write`, which takes the writer and returns how to make the footer. */
  def file(compression: Compression, name: FileName, id: WriterId)(
      write: DeltaFile.Writer => Vector[Frame] => Footer
  ): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val writer = new DeltaFile.Writer(out, compression, name, id)
    val footer = write(writer)
    writer.finish(footer)
    assert(writer.bytes == out.size)
    out.toByteArray
  }

  def reader(name: String, bytes: Array[Byte]): DeltaFile.Reader =
    new DeltaFile.Reader(new BytesSource(name, bytes))

  /** All that a file holds: its footer, and the records of its own frames. */
  final case class Contents(footer: Footer, records: Vector[Seq[Byte]])

  /** Reads every byte of a file that has a meaning. */
  def contents(name: String, bytes: Array[Byte], compressions: Compressions = All): Contents = {
    val r = reader(name, bytes)
    Contents(r.footer, r.footer.frames.map(f => r.records(f, compressions).toSeq))
  }

  /** A footer without frames, chains or previous files. */
  val EmptyFooter: Footer =
    Footer(
      FileName(0, StateName(1, "")),
      WriterId(0, 0),
      StateName(0, ""),
      0,
      0,
      Vector.empty,
      Map.empty,
      Map.empty,
      Vector.empty,
      Vector.empty
    )

  private val counts = Gen.frequency(
    4 -> Gen.choose(0, 200),
    1 -> Gen.choose(0, Int.MaxValue),
    1 -> Gen.const(Int.MaxValue)
  )
  private val longs = Gen.frequency(
    4 -> Gen.choose(0L, 1000L),
    1 -> Gen.choose(0L, Long.MaxValue),
    1 -> Gen.const(Long.MaxValue)
  )
  private val anyLongs =
    Gen.frequency(4 -> Gen.long, 1 -> Gen.oneOf(0L, -1L, Long.MinValue, Long.MaxValue))

  val names: Gen[StateName] = for {
    version <- longs
    id <- Gen.frequency(
      2 -> Gen.const(StateName.FixedId),
      3 -> Gen.uuid.map(_.toString),
      1 -> Gen.oneOf("ü", "名", "a b", "x" * 300)
    )
  } yield StateName(version, id)
  val fileNames: Gen[FileName] =
    Gen.zip(counts, names).map { case (worker, name) => FileName(worker, name) }
  val writers: Gen[WriterId] =
    Gen.zip(anyLongs, anyLongs).map { case (high, low) => WriterId(high, low) }

  private def chunks(file: FileName, writer: WriterId): Gen[Chunk] = for {
    offset <- longs
    stored <- counts
    raw <- counts
    checksum <- Gen.oneOf(Gen.choose(Int.MinValue, Int.MaxValue), Gen.oneOf(0, -1))
  } yield Chunk(file, writer, offset, stored, raw, checksum)

  /** Frames of a file's own chunks: back to back in each. */
  private def own(file: FileName, writer: WriterId): Gen[Vector[Frame]] =
    Gen
      .listOf(
        Gen.zip(
          chunks(file, writer),
          Gen.nonEmptyListOf(Gen.zip(counts, Gen.oneOf(true, false), Gen.choose(0, 100)))
        )
      )
      .map { all =>
        all.toVector.flatMap { case (chunk, frames) =>
          val starts = frames.scanLeft(0)(_ + _._3)
          val whole = chunk.copy(rawBytes = starts.last)
          frames.zip(starts).map { case ((bin, isImage, rawBytes), at) =>
            Frame(bin, isImage, whole, at, rawBytes.toLong)
          }
        }
      }

  /** Several chains that point into the same few chunks of the same few files, as real ones do. */
  private val chains: Gen[Map[Int, Chain]] = for {
    files <- Gen.choose(1, 5).flatMap(Gen.listOfN(_, Gen.zip(fileNames, writers)))
    chunks <- Gen
      .choose(1, 9)
      .flatMap(
        Gen.listOfN(_, Gen.oneOf(files).flatMap { case (file, writer) => chunks(file, writer) })
      )
    // Maps of up to four keep the order in which they were made.
    bins <- Gen.oneOf(Gen.choose(0, 4), Gen.choose(0, 50)).flatMap(Gen.listOfN(_, counts))
    chains <- Gen.sequence[Vector[(Int, Chain)], (Int, Chain)](bins.map { bin =>
      Gen
        .choose(0, 6)
        .flatMap(Gen.listOfN(_, Gen.zip(Gen.oneOf(chunks), Gen.oneOf(true, false), counts, counts)))
        .map { frames =>
          bin -> Chain(frames.map { case (chunk, isImage, anywhere, any) =>
            val at = anywhere % (chunk.rawBytes + 1L)
            Frame(bin, isImage, chunk, at.toInt, any % (chunk.rawBytes - at + 1))
          })
        }
    })
  } yield chains.toMap

  val footers: Gen[Footer] = for {
    file <- fileNames
    writer <- writers
    base <- names
    tableNumber <- longs
    tableHash <- anyLongs
    own <- own(file, writer)
    chains <- chains
    someCounts <- Gen.nonEmptyListOf(longs)
    left <- Gen.listOf(counts)
    previous <- Gen.choose(0, Footer.PreviousMax).flatMap(Gen.listOfN(_, names))
  } yield {
    val files = previous.map(FileName(file.worker, _)).toVector
    Footer(
      file,
      writer,
      base,
      tableNumber,
      tableHash,
      own,
      chains,
      counted(own, chains, someCounts),
      left.toVector,
      files
    )
  }

  /** Key counts for the bins that a footer must count, taken from `counts`. */
  def counted(frames: Vector[Frame], chains: Map[Int, Chain], counts: Seq[Long]): Map[Int, Long] =
    Footer.counted(frames, chains).map(bin => bin -> counts(bin % counts.size)).toMap
}
