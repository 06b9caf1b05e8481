// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** The end of a delta file: what is in it, and how to find everything else that a recovery needs.
  *
  * Recovery of a worker at `name` reads this footer and those of `previous`. A bin's chain is the newest full one among them, plus the frames of the
  * bin in newer footers. A writer therefore lists full
  * chains of the bins it adopted, of all bins in a worker's first file, and else of every sixteenth bin in turn: a commit costs in proportion to what
  * it touched.
  *
  * @param base
  *   the name this file's tails apply on
  * @param tableNumber
  *   number and hash of the routing table of the batch that wrote the file: a lost or foreign plan log is found by them
  * @param keyCounts
  *   live keys, after this commit, of each bin in `frames` or `chains`
  * @param left
  *   bins that this worker gave away with this version: what an older copy has of them is void
  * @param previous
  *   the files of this worker that came before, newest first, at most [[Footer.PreviousMax]]
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
  def ref(frame: Frame): FrameRef = FrameRef(file, writer, frame)

  /** Files that this footer's chains point into. */
  def referenced: Set[FileName] = chains.valuesIterator.flatMap(_.refs).map(_.file).toSet

  def encode(out: Encoder): Unit = {
    out.varint(file.worker).varint(file.name.version).string(file.name.id).long(writer.high).long(writer.low)
    out.varint(base.version).string(base.id).varint(tableNumber).long(tableHash)
    out.seq(frames)(f => Footer.encode(out.varint(f.bin), f))
    val sorted = chains.toSeq.sortBy(_._1) // equal footers are equal bytes, whatever the order of the map
    val files = sorted.iterator.flatMap(_._2.refs).map(r => (r.file, r.writer)).distinct.toVector
    val indexOf = files.zipWithIndex.toMap
    out.seq(files) { case (f, w) => out.varint(f.worker).varint(f.name.version).string(f.name.id).long(w.high).long(w.low) }
    out.seq(sorted) { case (bin, chain) =>
      out.varint(bin).seq(chain.refs)(r => Footer.encode(out.varint(indexOf((r.file, r.writer))), r.frame))
    }
    out.seq(keyCounts.toSeq.sortBy(_._1)) { case (bin, count) => out.varint(bin).varint(count) }
    out.seq(left)(bin => out.varint(bin))
    out.seq(previous)(f => out.varint(f.name.version).string(f.name.id))
  }
}

object Footer {

  /** A footer and its 15 predecessors hold every bin's full chain. */
  val PreviousMax = 15
  val Slices: Int = PreviousMax + 1

  private def encode(out: Encoder, f: Frame): Unit =
    out.boolean(f.isImage).varint(f.offset).varint(f.storedBytes).varint(f.rawBytes).int(f.checksum)

  private def decodeFrame(in: Decoder, bin: Int): Frame = Frame(bin, in.boolean(), in.varint(), in.count(), in.count(), in.int())

  def decode(in: Decoder): Footer = {
    val file = FileName(in.count(), StateName(in.varint(), in.string()))
    val writer = WriterId(in.long(), in.long())
    val base = StateName(in.varint(), in.string())
    val tableNumber = in.varint()
    val tableHash = in.long()
    val frames = in.seq(decodeFrame(in, in.count()))
    val files = in.seq((FileName(in.count(), StateName(in.varint(), in.string())), WriterId(in.long(), in.long())))
    val chains = in.seq {
      val bin = in.count()
      val refs = in.seq {
        val (f, w) = files(in.count(files.size - 1))
        FrameRef(f, w, decodeFrame(in, bin))
      }
      bin -> Chain(refs)
    }.toMap
    val keyCounts = in.seq(in.count() -> in.varint()).toMap
    val left = in.seq(in.count())
    val previous = in.seq(FileName(file.worker, StateName(in.varint(), in.string())))
    Footer(file, writer, base, tableNumber, tableHash, frames, chains, keyCounts, left, previous)
  }
}
