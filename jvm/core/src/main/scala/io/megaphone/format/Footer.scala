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
    out.seq(Footer.byPiece(frames)) { case (chunk, of) =>
      Footer.encode(out, chunk)
      out.seq(of)(frame => Footer.encode(out.varint(frame.bin), frame))
    }
    val sorted = chains.toSeq.sortBy(_._1) // so that equal footers are equal bytes
    val chunks = sorted.iterator.flatMap(_._2.frames).flatMap(_.chunk.pieces).distinct.toVector
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
          Footer.encode(out.varint(chunkIndex(frame.chunk.pieces.head)).varint(frame.at), frame)
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
    out.varint(frame.rawBytes << 1 | (if (frame.isImage) 1 else 0))

  /** The chunks of frames, each with its frames, which follow each other. A chunk that continues
    * the one before has none.
    */
  private def byPiece(frames: Vector[Frame]): Vector[(Chunk, Vector[Frame])] =
    Vector
      .unfold(0) { from =>
        Option.when(from < frames.size) {
          val behind = frames.indexWhere(frame => !(frame.chunk eq frames(from).chunk), from)
          val until = if (behind < 0) frames.size else behind
          frames.slice(from, until) -> until
        }
      }
      .flatMap { of =>
        val pieces = of.head.chunk.pieces
        (pieces.head -> of) +: pieces.tail.map(_ -> Vector.empty[Frame])
      }

  /** The bins whose keys a footer counts, ascending. */
  def counted(frames: Vector[Frame], chains: Map[Int, Chain]): Vector[Int] =
    (frames.iterator.map(_.bin) ++ chains.keysIterator).toVector.distinct.sorted

  private def decodeChunk(in: Decoder, file: FileName, writer: WriterId): Chunk =
    Chunk(file, writer, in.varint(), in.count(), in.count(), in.int())

  /** A frame from its word, which begins at byte `at` of the chunk of this index. If the frame is
    * longer than the chunk, it also has the chunks that follow.
    */
  private def frameOf(
      in: Decoder,
      bin: Int,
      word: Long,
      chunks: Vector[Chunk],
      index: Int,
      at: Long
  ): Frame = {
    if (word < 0) in.fail("a frame's length", word.toString)
    val (first, rawBytes) = (chunks(index), word >>> 1)
    val chunk =
      if (at + rawBytes <= first.rawBytes) first
      else {
        val ends = chunks.iterator.drop(index).scanLeft(0L)(_ + _.rawBytes).drop(1)
        val count = ends.indexWhere(_ >= rawBytes) + 1
        val whole = first.copy(more = chunks.slice(index + 1, index + count))
        if (at != 0 || count == 0 || whole.rawBytesOfAll != rawBytes || !isOneFile(whole))
          in.fail(s"at most ${first.rawBytes - at} more bytes in a chunk", rawBytes.toString)
        whole
      }
    Frame(bin, (word & 1) != 0, chunk, at.toInt, rawBytes)
  }

  /** Whether the pieces of a chunk lie in one file, back to back. */
  private def isOneFile(chunk: Chunk): Boolean =
    chunk.pieces.zip(chunk.more).forall { case (one, next) =>
      next.file == one.file && next.writer == one.writer &&
      next.offset == one.offset + one.storedBytes
    }

  /** Reads the chunks of the file, each with its frames, which lie in it back to back. */
  private def decodeOwn(in: Decoder, file: FileName, writer: WriterId): Vector[Frame] = {
    val read = in.seq {
      decodeChunk(in, file, writer) -> in.seq(in.count() -> in.varint())
    }
    val chunks = read.map(_._1)
    read.zipWithIndex.flatMap { case ((_, frames), index) =>
      var at = 0L
      frames.map { case (bin, word) =>
        val frame = frameOf(in, bin, word, chunks, index, at)
        at += frame.rawBytes
        frame
      }
    }
  }

  def decode(in: Decoder): Footer = {
    val file = FileName(in.count(), StateName(in.varint(), in.string()))
    val writer = WriterId(in.long(), in.long())
    val base = StateName(in.varint(), in.string())
    val tableNumber = in.varint()
    val tableHash = in.long()
    val frames = decodeOwn(in, file, writer)
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
        val (index, at) = (in.count(chunks.size - 1), in.count())
        frameOf(in, bin, in.varint(), chunks, index, at.toLong)
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
