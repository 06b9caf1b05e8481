// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** The end of a delta file: the contents of the file, and references to all other frames that a
  * recovery needs.
  *
  * The recovery of a worker at the name of `file` reads this footer and those of `previous`. A
  * bin's chain is the newest full chain among them, plus the frames of the bin in newer footers. So
  * a writer lists the full chains of the bins that it adopted, of all bins in a worker's first
  * file, and otherwise of a sixteenth of the bins in turn: the cost of a commit is in proportion to
  * the bins that it touched.
  *
  * @param base
  *   the name that this file's tails apply to
  * @param tableNumber
  *   number of the routing table of the batch that wrote the file
  * @param tableHash
  *   content hash of that table, by which a recovery detects a lost or foreign plan log
  * @param keyCounts
  *   number of live keys, after this commit, of each bin in `frames` or `chains`, and of no other
  * @param left
  *   bins that left this worker with this version: their records in an older copy are void
  * @param previous
  *   the previous files of this worker, newest first, at most [[Footer.PreviousMax]]
  */
final case class Footer(
    file: FileName,
    writer: WriterId,
    base: StateName,
    tableNumber: Long,
    tableHash: Long,
    frames: Vector[Frame],
    chains: Map[Int, Chain],
    keyCounts: Map[Int, Long],
    left: Vector[Int],
    previous: Vector[FileName]
) {

  lazy val frameOf: Map[Int, Frame] = frames.iterator.map(f => f.bin -> f).toMap

  /** The files that this footer's chains point into. */
  def referenced: Set[FileName] = chains.valuesIterator.flatMap(_.frames).map(_.file).toSet

  def encode(out: Encoder): Unit = {
    out
      .varint(file.worker)
      .varint(file.name.version)
      .string(file.name.id)
      .long(writer.high)
      .long(writer.low)
    out.varint(base.version).string(base.id).varint(tableNumber).long(tableHash)
    out.seq(Footer.byChunk(frames)) { of =>
      Footer.encode(out, of.head.chunk)
      out.seq(of)(frame => Footer.encode(out.varint(frame.bin), frame))
    }
    val sorted = chains.toSeq.sortBy(_._1) // so that equal footers are equal bytes
    val chunks = sorted.iterator.flatMap(_._2.frames).map(_.chunk).distinct.toVector
    val files = chunks.map(b => (b.file, b.writer)).distinct
    val fileIndex = files.zipWithIndex.toMap
    val chunkIndex = chunks.zipWithIndex.toMap
    out.seq(files) { case (f, w) =>
      out.varint(f.worker).varint(f.name.version).string(f.name.id).long(w.high).long(w.low)
    }
    out.seq(chunks)(chunk =>
      Footer.encode(out.varint(fileIndex((chunk.file, chunk.writer))), chunk)
    )
    out.seq(sorted) { case (bin, chain) =>
      out
        .varint(bin)
        .seq(chain.frames)(frame =>
          Footer.encode(out.varint(chunkIndex(frame.chunk)).varint(frame.at), frame)
        )
    }
    out.seq(Footer.counted(frames, chains))(bin => out.varint(keyCounts(bin)))
    out.seq(left)(bin => out.varint(bin))
    out.seq(previous)(f => out.varint(f.name.version).string(f.name.id))
  }
}

object Footer {

  /** A footer and its 15 predecessors have the full chain of every bin. */
  val PreviousMax = 15
  val Slices: Int = PreviousMax + 1

  /** The slice of a bin. Bins of one slice have their full chains listed in the same commits; they
    * have adjacent numbers, because such bins share chunks.
    */
  def sliceOf(bin: Int, binsCount: Int): Int = (bin.toLong * Slices / binsCount).toInt

  private def encode(out: Encoder, chunk: Chunk): Unit =
    out.varint(chunk.offset).varint(chunk.storedBytes).varint(chunk.rawBytes).int(chunk.checksum)
  private def encode(out: Encoder, frame: Frame): Unit =
    out.varint(frame.rawBytes.toLong << 1 | (if (frame.isImage) 1 else 0))

  /** Groups the frames by chunk; frames of one chunk follow each other. */
  private def byChunk(frames: Vector[Frame]): Vector[Vector[Frame]] = Vector.unfold(0) { from =>
    Option.when(from < frames.size) {
      val behind = frames.indexWhere(frame => !(frame.chunk eq frames(from).chunk), from)
      val until = if (behind < 0) frames.size else behind
      frames.slice(from, until) -> until
    }
  }

  /** The bins whose keys a footer counts, ascending. */
  def counted(frames: Vector[Frame], chains: Map[Int, Chain]): Vector[Int] =
    (frames.iterator.map(_.bin) ++ chains.keysIterator).toVector.distinct.sorted

  private def decodeChunk(in: Decoder, file: FileName, writer: WriterId): Chunk =
    Chunk(file, writer, in.varint(), in.count(), in.count(), in.int())
  private def decodeFrame(in: Decoder, bin: Int, chunk: Chunk, at: Int): Frame = {
    val word = in.varint()
    if (word < 0 || word >>> 1 > Int.MaxValue) in.fail("a frame's length", word.toString)
    Frame(bin, (word & 1) != 0, chunk, at, (word >>> 1).toInt)
  }

  /** Reads the frames of one chunk, which lie in it back to back. */
  private def decodeOwn(in: Decoder, chunk: Chunk): Vector[Frame] = {
    var at = 0
    in.seq {
      val frame = decodeFrame(in, in.count(), chunk, at)
      if (frame.rawBytes > chunk.rawBytes - at)
        in.fail(s"at most ${chunk.rawBytes - at} more bytes in a chunk", frame.rawBytes.toString)
      at += frame.rawBytes
      frame
    }
  }

  def decode(in: Decoder): Footer = {
    val file = FileName(in.count(), StateName(in.varint(), in.string()))
    val writer = WriterId(in.long(), in.long())
    val base = StateName(in.varint(), in.string())
    val tableNumber = in.varint()
    val tableHash = in.long()
    val frames = in.seq(decodeOwn(in, decodeChunk(in, file, writer))).flatten
    val files = in.seq(
      (FileName(in.count(), StateName(in.varint(), in.string())), WriterId(in.long(), in.long()))
    )
    val chunks = in.seq {
      val (f, w) = files(in.count(files.size - 1))
      decodeChunk(in, f, w)
    }
    val chains = in.seq {
      val bin = in.count()
      bin -> Chain(in.seq {
        val chunk = chunks(in.count(chunks.size - 1))
        decodeFrame(in, bin, chunk, in.count())
      })
    }.toMap
    val bins = counted(frames, chains)
    val counts = in.seq(in.varint())
    if (counts.size != bins.size)
      in.fail(s"the keys of ${bins.size} bins", s"those of ${counts.size}")
    val left = in.seq(in.count())
    val previous = in.seq(FileName(file.worker, StateName(in.varint(), in.string())))
    Footer(
      file,
      writer,
      base,
      tableNumber,
      tableHash,
      frames,
      chains,
      bins.zip(counts).toMap,
      left,
      previous
    )
  }
}
