// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

import java.io.ByteArrayOutputStream
import java.nio.file.{Files => Disk, Path}

import io.megaphone.log.BinLog

/** Sample files of the format, kept in the test resources (`format/v<version>/`) so that files once
  * written stay readable.
  *
  * There are three files. Worker 0 commits version 1 with bins 5 and 6. Bin 6 moves to worker 2,
  * which commits version 2 with a tail of bin 6 and an image of bin 7. Worker 0 commits version 2
  * under checkpoint format v1, where names have no id. The frames are not compressed, because a
  * compressor's next release may compress the same bytes differently.
  *
  * They were written once. A new format version gets new ones, by
  * {{{
  * ./sbt 'core/Test/runMain io.megaphone.format.SampleFile src/test/resources/format'
  * }}}
  * (the folder is relative to `jvm/core`), and the old ones stay. An existing file is never
  * replaced: delete it first, if its version was never released.
  */
object SampleFile {
  val First: FileName = FileName(0, StateName(1, "1d3b9e52-7c1f-4a57-9d55-2f0c7a3e8b41"))
  val Moved: FileName = FileName(2, StateName(2, "c07a44fe-13a2-4f0e-8a0b-6b9f5d2e7710"))
  val WithoutId: FileName = FileName(0, StateName(2, StateName.FixedId))

  val FirstWriter: WriterId = WriterId(0x0123456789abcdefL, 0x1032547698badcfeL)
  val MovedWriter: WriterId = WriterId(-1L, Long.MinValue)
  val WithoutIdWriter: WriterId = WriterId(0, 1)

  /** The files, as today's writer writes them. */
  def files: Vector[(FileName, Array[Byte])] = {
    val log5, log6, log7 = new BinLog

    put(log5, 0, "", "the empty key")
    put(log5, 0, "eight by", "16 bytes of value")
    put(log5, 3, "eight by", "another family")
    put(log6, 0, "to be removed", "x" * 100)
    put(log6, 0, "to be overwritten", "soon")
    val (first, firstBytes) = write(First, FirstWriter) { writer =>
      writer.frame(5, isImage = false, log5.tail().toBytes)
      writer.frame(6, isImage = false, log6.tail().toBytes)
      frames => {
        val chains = frames.map(f => f.bin -> Chain(Vector(f))).toMap
        Footer(
          First,
          FirstWriter,
          StateName(0, StateName.FixedId),
          0,
          0x5eedL,
          frames,
          chains,
          Map(5 -> 3L, 6 -> 2L),
          Vector.empty,
          Vector.empty
        )
      }
    }
    Seq(log5, log6).foreach(_.settle())

    remove(log6, 0, "to be removed")
    put(log6, 0, "to be overwritten", "now")
    put(log6, 1023, "in the last family", "")
    put(log7, 0, "é", "ünïcödé")
    val (moved, movedBytes) = write(Moved, MovedWriter) { writer =>
      writer.frame(6, isImage = false, log6.tail().toBytes)
      // A tail of puts alone is also an image, in an order that does not depend on a hash.
      writer.frame(7, isImage = true, log7.tail().toBytes)
      frames => {
        val chains = Map(
          6 -> Chain(Vector(first.frameOf(6), frames(0))),
          7 -> Chain(Vector(frames(1)))
        )
        Footer(
          Moved,
          MovedWriter,
          First.name,
          1,
          -2,
          frames,
          chains,
          Map(6 -> 2L, 7 -> 1L),
          Vector.empty,
          Vector(FileName(2, First.name))
        )
      }
    }
    assert(moved.referenced == Set(First, Moved))

    remove(log5, 0, "")
    val (_, withoutIdBytes) = write(WithoutId, WithoutIdWriter) { writer =>
      writer.frame(5, isImage = false, log5.tail().toBytes)
      frames =>
        Footer(
          WithoutId,
          WithoutIdWriter,
          First.name,
          1,
          -2,
          frames,
          Map.empty,
          Map(5 -> 2L),
          Vector(6),
          Vector(First)
        )
    }
    Vector(First -> firstBytes, Moved -> movedBytes, WithoutId -> withoutIdBytes)
  }

  /** Writes the files of today's format version below a folder. */
  def main(args: Array[String]): Unit = {
    val folder = Path
      .of(args.headOption.getOrElse(sys.error("Pass the folder format/ of the test resources.")))
      .resolve(s"v${DeltaFile.FormatVersion}")
    for ((name, bytes) <- files) {
      val file = folder.resolve(name.toString)
      if (Disk.exists(file)) println(s"$file exists: it is not replaced.")
      else {
        Disk.createDirectories(file.getParent)
        Disk.write(file, bytes)
        println(s"$file: ${bytes.length} bytes")
      }
    }
  }

  private def write(name: FileName, id: WriterId)(
      content: DeltaFile.Writer => Vector[Frame] => Footer
  ): (Footer, Array[Byte]) = {
    val out = new ByteArrayOutputStream
    val writer = new DeltaFile.Writer(out, Compression.None, name, id)
    val footer = writer.finish(content(writer))
    assert(footer.file == name)
    (footer, out.toByteArray)
  }

  private def put(log: BinLog, family: Int, key: String, value: String): Unit = {
    val (k, v) = (key.getBytes("UTF-8"), value.getBytes("UTF-8"))
    log.put(family, k, 0, k.length, v, 0, v.length)
  }

  private def remove(log: BinLog, family: Int, key: String): Unit = {
    val k = key.getBytes("UTF-8")
    assert(log.remove(family, k, 0, k.length))
  }
}
