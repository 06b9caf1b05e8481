// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import scala.annotation.tailrec
import scala.collection.mutable

import io.megaphone.checkpoint.CatchUp
import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{
  BytesSource, Chain, Compressions, DeltaFile, FileName, Frame, StateName, WriterId
}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.DamagedRecordsException
import io.megaphone.log.memory.HeapBudget
import io.megaphone.state.Holding

/** Makes and reads the blocks that carry bins from one executor to another. A block is a delta file
  * in memory, or several.
  *
  *   - An ''image block'' has all records of the moved bins at one name. A target makes a replica
  *     of it.
  *   - A ''tail block'' has the records that one commit appended to them. A target applies it to a
  *     replica at exactly the name that the tail is based on.
  *   - An ''offer'' has no records. A target asks for those that it needs.
  *
  * All list the chain and the key count of every bin that moves, even of an empty one. So missing
  * is never read as empty, and the target's first commit can list the chain. Losing a block costs
  * time only.
  *
  * What is larger than `partBytes` travels in several parts: see [[BlockParts]]. So neither end
  * needs more memory than a few parts beside the state itself. The target pulls parts until it has
  * every bin that it asked for.
  *
  * Threads: any, except if a method says otherwise.
  *
  * @param partBytes
  *   how many bytes of records a part has at most, unless a single record has more; an image's part
  *   has 4 MiB at most, a tail's 8 MiB
  * @param tailBytesMax
  *   how many bytes of records a tail block has at most: a target has all of it in memory, while it
  *   reads a file piece by piece
  */
final class TransferBlocks(
    compressions: Compressions,
    budget: HeapBudget = HeapBudget.Unlimited,
    partBytes: Int = DeltaFile.PieceBytes,
    tailBytesMax: Long = TransferBlocks.TailBytesMax
) {
  import TransferBlocks._

  private val pieceBytes = math.min(partBytes, PieceBytes)

  /** Makes the image block of the bins of a snapshot. Calls `publish` with the number and the bytes
    * of each part; part 0 comes last.
    *
    * @param copied
    *   is called after each piece, with its bytes of records; it may wait
    */
  def image(snapshot: Snapshot, copied: Long => Unit = _ => ())(
      publish: (Int, Array[Byte]) => Unit
  ): Unit = {
    val file = FileName(snapshot.worker, snapshot.name)
    val partBytes = math.min(this.partBytes, ImagePartBytes)
    val parts = new BlockParts(file, snapshot.name, compressions.writer, partBytes, publish)
    snapshot.bins.foreach { b =>
      parts.add(b.bin, isImage = true, b.chain, b.keyCount) { add =>
        b.records(pieceBytes, (piece, length) => { add(piece, length); copied(length.toLong) })
      }
    }
    parts.end()
  }

  /** Makes the tail block of bins, of the head that `holding` has just committed, in the same way.
    * Makes none if it is too large: the target reads the file. Only with the lease. Throws
    * IllegalStateException if there is no head.
    */
  def tail(holding: Holding, bins: Seq[Int])(publish: (Int, Array[Byte]) => Unit): Unit = {
    val file = FileName(holding.worker, headOf(holding))
    if (bins.iterator.map(holding.here(_).tailBytes).sum <= tailBytesMax) {
      val partBytes = math.min(this.partBytes, TailPartBytes)
      val parts = new BlockParts(file, holding.base, compressions.writer, partBytes, publish)
      bins.foreach { bin =>
        val keyCount = holding.stateOf(bin).keyCount
        parts.add(bin, isImage = false, holding.chain(bin), keyCount) { f =>
          holding.here(bin).tail().foreachPiece(partBytes)(f)
        }
      }
      parts.end()
    }
  }

  /** Makes the offer of bins of the head that `holding` has just committed: their chains and key
    * counts. Only with the lease. Throws IllegalStateException if there is no head.
    */
  def offer(holding: Holding, bins: Seq[Int])(publish: (Int, Array[Byte]) => Unit): Unit = {
    val name = headOf(holding)
    val file = FileName(holding.worker, name)
    val parts = new BlockParts(file, name, compressions.writer, partBytes, publish)
    bins.foreach { bin =>
      parts.add(bin, isImage = false, holding.chain(bin), holding.stateOf(bin).keyCount)(_ => ())
    }
    parts.end()
  }

  /** The chains and the key counts of the bins in an offer. Returns None if it is of another state,
    * or lacks one of the bins. Throws DamagedFileException.
    */
  def offered(offer: Part, file: FileName, bins: Seq[Int]): Option[Map[Int, (Chain, Long)]] = {
    val footer = offer.footer
    Option.when(footer.file == file && isWhole(Seq(offer), bins)) {
      bins.iterator.map(bin => bin -> (footer.chains(bin), footer.keyCounts(bin))).toMap
    }
  }

  /** Makes a replica of an image. Returns None if its part 0 is not there. Throws
    * DamagedFileException, also if a later part does not come.
    *
    * @param bins
    *   the bins of the image
    * @param grown
    *   is called with the log of a bin each time that it has become longer, and by how many bytes
    *   of records; it may wait
    * @param pulling
    *   begins to pull a part. It is called for the next part once one has come, before that one is
    *   taken in
    */
  def replicaOf(bins: Seq[Int], binsCount: Int, grown: (BinLog, Long) => Unit = (_, _) => ())(
      pulling: Int => Coming[Part]
  ): Option[Holding] = budget.loading { loading =>
    val begun = mutable.Map.empty[Int, BinLog] // bins of which parts are still to come
    def takeIn(part: Part, replica: Holding): Unit = {
      part.footer.frames.foreach { frame =>
        if (frame.isImage) begun(frame.bin) = loading.add(new BinLog(budget))
        val log = begun.getOrElse(frame.bin, throw part.damage(frame.bin, "an image first"))
        applyFrame(part, frame, log)
        log.settle() // nothing is undone here, so nothing is kept for it
        grown(log, frame.rawBytes)
      }
      part.footer.chains.foreach { case (bin, chain) =>
        val log = begun.remove(bin).getOrElse(throw part.damage(bin, "an image"))
        CatchUp.check(part.name, part.footer, Map(bin -> log))
        replica.put(bin, log, chain)
      }
    }
    @tailrec
    def go(
        making: Option[Making],
        replica: Option[Holding],
        number: Int,
        coming: Coming[Part]
    ): Option[Holding] = coming.await() match {
      case None => making.map(made => throw made.lacks(number))
      case Some(part) =>
        val found = replica.getOrElse(emptyAt(part.footer.file, binsCount))
        checkFits(making.getOrElse(part.making), part, found)
        val isLast = bins.forall(bin => found.has(bin) || part.footer.chains.contains(bin))
        val next = if (isLast) None else Some(pulling(number + 1))
        try takeIn(part, found)
        catch { case e: Throwable => next.foreach(_.cancel()); throw e }
        next match {
          case Some(further) =>
            go(making.orElse(Some(part.making)), Some(found), number + 1, further)
          case None => Some(found)
        }
    }
    go(None, None, 0, pulling(0))
  }

  private def emptyAt(file: FileName, binsCount: Int): Holding = {
    val replica = new Holding(file.worker, binsCount)
    replica.restart(file.name, Vector.empty)
    replica
  }

  /** A part is of a making, and brings more of it. */
  private def checkFits(making: Making, part: Part, replica: Holding): Unit = {
    val footer = part.footer
    val bins = footer.frames.map(_.bin) ++ footer.chains.keys
    if (!making.isOf(part) || bins.isEmpty || bins.exists(replica.has))
      throw new DamagedFileException(
        part.name,
        None,
        s"more bins of worker ${replica.worker} at ${replica.base}",
        s"bins ${bins.distinct.mkString(", ")} of worker ${footer.file.worker} at " +
          s"${footer.file.name}"
      )
  }

  /** Whether parts of a tail have all of some bins. Throws DamagedFileException. */
  def isWhole(tail: Seq[Part], bins: Iterable[Int]): Boolean = {
    val found = tail.iterator.flatMap(_.footer.chains.keysIterator).toSet
    bins.forall(found)
  }

  /** Applies all parts of a tail to a replica, which no other thread may use meanwhile. Returns
    * false, and changes nothing, if the tail is based on another name or lacks a bin of the
    * replica. Throws DamagedFileException; the replica is then as it was.
    */
  def applyTail(tail: Seq[Part], replica: Holding): Boolean = {
    val footers = tail.map(_.footer)
    val isNext = tail.nonEmpty && tail.forall(tail.head.making.isOf) && footers.forall { f =>
      f.base == replica.base && f.file.worker == replica.worker
    }
    isNext && isWhole(tail, replica.bins.toSeq) && {
      val whole = footers.head.copy(
        chains = footers.flatMap(_.chains).toMap,
        keyCounts = footers.flatMap(_.keyCounts).toMap
      )
      val logs = replica.bins.map(bin => bin -> replica.here(bin)).toMap
      CatchUp.advance(replica, tail.head.name, whole, logs, whole.chains, Vector.empty) {
        for (part <- tail; frame <- part.footer.frames; log <- logs.get(frame.bin))
          applyFrame(part, frame, log)
      }
      true
    }
  }

  private def applyFrame(part: Part, frame: Frame, log: BinLog): Unit = {
    val records = part.reader.pieces(frame, compressions)
    try records.foreach(piece => log.apply(piece, 0, piece.length))
    catch {
      case e: DamagedRecordsException =>
        throw part.damage(frame.bin, "whole records", e.damage)
    }
  }
}

object TransferBlocks {

  /** The bytes of an image's frame, about: what is copied between two looks at the rate. */
  private val PieceBytes = 256 << 10
  private val TailBytesMax = 256L << 20

  /** Small: a part goes at the full rate of the network, also if a task begins meanwhile. */
  private val ImagePartBytes = 4 << 20

  /** A target may have a part of each source in memory at the same time. */
  private val TailPartBytes = 8 << 20

  /** A part that has come: the name of its block, and its bytes. Threads: one. */
  final case class Part(name: String, bytes: Array[Byte]) {
    private[transfer] lazy val reader = new DeltaFile.Reader(new BytesSource(name, bytes))
    private[transfer] def footer = reader.footer

    private[transfer] def making = Making(name, footer.file, footer.writer)
    private[transfer] def damage(bin: Int, expected: String, found: String = "none") =
      new DamagedFileException(name, Some(bin), expected, found)
  }

  /** What all parts of one making of one block have in common, by the name of its first part. */
  private[transfer] final case class Making(name: String, file: FileName, writer: WriterId) {
    def isOf(part: Part): Boolean = part.footer.file == file && part.footer.writer == writer
    def lacks(number: Int) =
      new DamagedFileException(name, None, s"part $number of the same block", "none")
  }

  /** A bin at one name.
    *
    * @param records
    *   calls a function with the bin's records, in pieces of at most so many bytes
    * @param heapBytes
    *   returns how much heap the records take beside the bin's log
    */
  final case class BinSnapshot(
      bin: Int,
      chain: Chain,
      keyCount: Long,
      records: (Int, (Array[Byte], Int) => Unit) => Unit,
      heapBytes: () => Long = () => 0L
  )

  /** Bins of one worker at one name. It keeps pages of their logs, also of those that spill them or
    * are compacted meanwhile: `heapBytes` are of these.
    */
  final class Snapshot(val worker: Int, val name: StateName, val bins: Vector[BinSnapshot])
      extends HeapBudget.User {
    override def heapBytes: Long = bins.iterator.map(_.heapBytes()).sum
  }

  /** The settled state of some bins of a holding. Copies no records; any thread may read them. Only
    * with the lease, before the batch writes.
    */
  def snapshot(holding: Holding, bins: Iterable[Int]): Snapshot =
    new Snapshot(holding.worker, holding.base, bins.iterator.map(snapshotOf(holding, _)).toVector)

  /** The state of some bins at the head of a holding. Copies no records: they are to be read before
    * the lease ends. Only with the lease, after the commit. Throws IllegalStateException if there
    * is no head.
    */
  def headSnapshot(holding: Holding, bins: Iterable[Int]): Snapshot = new Snapshot(
    holding.worker,
    headOf(holding),
    bins.iterator.map { bin =>
      val log = holding.here(bin)
      snapshotOf(holding, bin).copy(records = log.foreachImagePiece(_)(_))
    }.toVector
  )

  private def headOf(holding: Holding): StateName = holding.head.getOrElse(
    throw new IllegalStateException(s"worker ${holding.worker} has no commit to hand over")
  )

  private def snapshotOf(holding: Holding, bin: Int): BinSnapshot = {
    val log = holding.here(bin)
    val prefix = log.prefix()
    val keyCount = holding.stateOf(bin).keyCount
    val heapBytes = () => log.heapBytesLeftTo(prefix)
    BinSnapshot(bin, holding.chain(bin), keyCount, prefix.foreachPiece(_)(_), heapBytes)
  }
}
