// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import scala.collection.mutable

import io.megaphone.errors.{DamagedFileException, PlanLogMismatchException}
import io.megaphone.format.{
  Chain, Chunk, Compressions, DeltaFile, FileName, Footer, Frame, StateName
}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.{DamagedRecordsException, HeapBudget}
import io.megaphone.state.{LoadedBin, Traffic}

/** Rebuilds bins from the files of a checkpoint.
  *
  * Given a worker's file at a name, some bins, and the routing table of that version.
  *   1. `footers` reads the footer of the file and those of its predecessors, at most 15. The
  *      newest footer must name the routing table that the plan log has for that version; under
  *      checkpoint format v1 so must that of worker 0.
  *   1. `chains` finds each bin's chain: the newest chain that a footer lists, and the bin's frames
  *      in newer footers. A bin that no footer lists is an error: missing is never read as empty.
  *      So is a bin that has left the worker after that chain was listed.
  *   1. `load` reads the frames of those chains, file by file from the oldest, and applies them;
  *      large bins in parallel. The number of live keys must be that of the footer. A file whose
  *      footer was read is still open for that: each file is opened once.
  *
  * ''Dies at any of these:'' nothing was written, so only time is lost.
  *
  * Threads: any.
  *
  * @param check
  *   is called with the records of each frame that is read, piece by piece, by several threads at
  *   once, and may throw: a log does not know what the records mean
  */
class Recovery(
    files: StateFiles,
    compressions: Compressions,
    private[checkpoint] val together: Parallel = Parallel.Sequential,
    budget: HeapBudget = HeapBudget.Unlimited,
    check: Array[Byte] => Unit = Recovery.Unchecked
) {
  import Recovery._

  /** Reads files that stay open meanwhile. */
  private[checkpoint] def opening[A](use: OpenFiles => A): A = {
    val opened = new OpenFiles(files)
    try use(opened)
    finally opened.close()
  }

  /** Counts the logs that `load` registers until it ends. */
  private[checkpoint] def loading[A](load: HeapBudget.Loading => A): A = budget.loading(load)

  /** The footer of a file. Throws MissingFileException or DamagedFileException. */
  def footer(file: FileName): Footer = opening(_.footer(file))

  /** The footer of a file that was written under the routing table of this content hash. Throws
    * PlanLogMismatchException if it was not.
    *
    * Under checkpoint format v1 a worker's file may be of batches that the query went back from, if
    * the batches after that had fewer workers. Every table has a worker 0, whose file is therefore
    * always of the newest ones: it must name the table, too.
    */
  def footer(file: FileName, tableHash: Long): Footer = checked(file, tableHash, footer(_))

  private[checkpoint] def checked(
      file: FileName,
      tableHash: Long,
      footerOf: FileName => Footer
  ): Footer = {
    val found = together.waiting(naming(file).map(one => () => footerOf(one)))
    found.foreach(checkTable(_, tableHash))
    found.head
  }

  /** The files whose footers must name the table that a file was written under; itself first. */
  private def naming(file: FileName): Seq[FileName] =
    if (file.name.id == StateName.FixedId && file.worker != 0) Seq(file, FileName(0, file.name))
    else Seq(file)

  /** The footers that together list the chains of a worker's bins, newest first. */
  def footers(file: FileName): Vector[Footer] = withPrevious(footer(file), footer(_))

  /** The same, of a file that was written under the routing table of this content hash. Throws
    * PlanLogMismatchException if the file was not.
    */
  def footers(file: FileName, tableHash: Long): Vector[Footer] =
    withPrevious(footer(file, tableHash), footer(_))

  private def withPrevious(newest: Footer, footerOf: FileName => Footer): Vector[Footer] =
    newest +: together.waiting(newest.previous.map(f => () => footerOf(f))).toVector

  /** Throws PlanLogMismatchException if a file was not written under the table that the plan log
    * has for its version.
    */
  protected def checkTable(footer: Footer, tableHash: Long): Unit =
    if (footer.tableHash != tableHash)
      throw PlanLogMismatchException.otherTable(
        footer.file.toString,
        footer.tableNumber,
        footer.file.name.version
      )

  /** Throws PlanLogMismatchException if a bin has left its worker: the worker's files have only an
    * older state of it.
    */
  protected def checkHasNotLeft(footers: Vector[Footer], bin: Int): Unit =
    footers
      .find(_.left.contains(bin))
      .foreach(footer =>
        throw PlanLogMismatchException.left(footer.file.toString, footer.file.worker, bin)
      )

  /** The chains of `bins`, and their numbers of live keys, at the newest of `footers`. Throws
    * DamagedFileException for a bin that no footer lists, PlanLogMismatchException for a bin that
    * has left the worker.
    */
  def chains(footers: Vector[Footer], bins: Iterable[Int]): Map[Int, Located] =
    bins.iterator.map { bin =>
      val full = footers.indexWhere(_.chains.contains(bin))
      checkHasNotLeft(if (full < 0) footers else footers.take(full), bin)
      if (full < 0)
        throw new DamagedFileException(
          footers.head.file.toString,
          Some(bin),
          "the bin's chain in this footer or its predecessors",
          "none"
        )
      val newer = footers.take(full).reverse
      val chain = newer.foldLeft(footers(full).chains(bin))((chain, f) =>
        f.frameOf.get(bin).fold(chain)(chain + _)
      )
      val count = footers.iterator.map(_.keyCounts.get(bin)).collectFirst { case Some(c) => c }
      bin -> Located(
        chain,
        count.getOrElse(
          throw new DamagedFileException(
            footers.head.file.toString,
            Some(bin),
            "a count of its keys",
            "none"
          )
        )
      )
    }.toMap

  /** The bins of a worker at a name, which the routing table of this content hash gives it. */
  def load(file: FileName, bins: Iterable[Int], tableHash: Long): Loaded = opening { opened =>
    load(opened, checked(file, tableHash, opened.footer(_)), bins)
  }

  private def load(opened: OpenFiles, newest: Footer, bins: Iterable[Int]): Loaded = {
    val all = withPrevious(newest, opened.footer(_))
    load(opened, chains(all, bins)).copy(lineage = all.map(_.file).take(Footer.PreviousMax))
  }

  /** The frames of some bins in one file, with their records, piece by piece. Throws
    * PlanLogMismatchException if the file was not written under the routing table of this content
    * hash.
    */
  def frames(
      file: FileName,
      bins: Set[Int],
      tableHash: Long
  ): Vector[(Frame, Vector[Array[Byte]])] = opening { opened =>
    val footer = checked(file, tableHash, opened.footer(_))
    opened.read(file) { reader =>
      footer.frames.filter(f => bins(f.bin)).map { f =>
        val records = reader.pieces(f, compressions).toVector
        records.foreach(check)
        f -> records
      }
    }
  }

  /** Bins by their chains, whose files are there as long as a chain that goes on from them is. */
  def load(located: Map[Int, Located]): Loaded = opening(load(_, located))

  private def loadOne(file: FileName, bin: Int): BinLog = opening { opened =>
    load(opened, opened.footer(file), Seq(bin)).bins(bin).log
  }

  /** Loads bins by their chains. */
  private def load(opened: OpenFiles, located: Map[Int, Located]): Loaded =
    budget.loading { loading =>
      val all = shares(located)
      opened.keep(all.flatMap(filesOf))
      val parts = together(all.map(share => () => loadShare(opened, share, loading)))
      Loaded(parts.iterator.flatMap(_.bins).toMap, parts.map(_.traffic).reduce(_ + _), Vector.empty)
    }

  /** Cuts the bins into one share for each thread, of about the same bytes. Neighbours stay
    * together, because they share chunks. Returns a single share if there is little to load.
    */
  private def shares(located: Map[Int, Located]): Seq[Map[Int, Located]] = {
    val bytes = located.valuesIterator.map(bytesOf).sum
    if (together.width == 1 || bytes < ShareBytesMin) Seq(located)
    else {
      var before = 0L
      val shared = located.toVector.sortBy(_._1).groupBy { case (_, one) =>
        val middle = before + bytesOf(one) / 2
        before += bytesOf(one)
        math.min(together.width - 1L, middle * together.width / bytes)
      }
      shared.values.map(_.toMap).toSeq
    }
  }

  private def loadShare(
      opened: OpenFiles,
      located: Map[Int, Located],
      loading: HeapBudget.Loading
  ): Loaded = {
    val logs = mutable.Map.from(located.map { case (bin, _) =>
      bin -> loading.add(new BinLog(budget))
    })
    val byFile = framesOf(located).groupBy(_.file)
    val traffic = byFile.toSeq
      .sortBy { case (file, _) => file.name.version }
      .map { case (file, frames) =>
        opened.read(file)(apply(_, frames, logs, loading, _.settle()))
      }
      .foldLeft(Traffic())(_ + _)
    logs.foreach { case (bin, log) =>
      log.settle()
      val expected = located(bin).keyCount
      if (log.keyCount.toLong != expected)
        throw new DamagedFileException(
          located(bin).chain.toString,
          Some(bin),
          s"$expected keys",
          s"${log.keyCount}"
        )
    }
    Loaded(
      logs.iterator.map { case (bin, log) => bin -> LoadedBin(bin, log, located(bin).chain) }.toMap,
      traffic,
      Vector.empty
    )
  }

  /** Applies frames of one file to logs. Returns the bytes read.
    *
    * @param reader
    *   of that file
    * @param logs
    *   by bin; an image replaces the log
    * @param loading
    *   counts the logs of images, which no holding has yet
    * @param applied
    *   is called with a log after each piece; logs that are dropped if this fails can be settled,
    *   so that they keep nothing to undo
    */
  private[checkpoint] def apply(
      reader: DeltaFile.Reader,
      frames: Vector[Frame],
      logs: mutable.Map[Int, BinLog],
      loading: HeapBudget.Loading,
      applied: BinLog => Unit = _ => ()
  ): Traffic = {
    val rewritten = mutable.Map.empty[Chunk, DamagedFileException]
    def mayBeRewritten(frame: Frame) =
      frame.file.name.id == StateName.FixedId && reader.footer.writer != frame.chunk.writer
    frames.sortBy(frame => (frame.chunk.offset, frame.at)).foreach { frame =>
      if (!rewritten.contains(frame.chunk))
        try {
          if (frame.chunk.more.nonEmpty && mayBeRewritten(frame)) // apply all pieces or none
            reader.pieces(frame, compressions).foreach(_ => ())
          applyFrame(reader, frame, logs, loading, applied)
        } catch {
          case damage: DamagedFileException if mayBeRewritten(frame) =>
            rewritten(frame.chunk) = damage
        }
      rewritten.get(frame.chunk).foreach(applyRewritten(reader, frame, logs, loading, applied, _))
    }
    val bytes = frames.iterator.map(_.chunk).distinct.map(_.storedBytesOfAll).sum
    if (reader.isPushed) Traffic(fromPeer = bytes) else Traffic(fromCheckpoint = bytes)
  }

  /** Applies a frame's records to a bin's log; an image replaces the log. */
  private def applyFrame(
      reader: DeltaFile.Reader,
      frame: Frame,
      logs: mutable.Map[Int, BinLog],
      loading: HeapBudget.Loading,
      applied: BinLog => Unit
  ): Unit = {
    if (frame.isImage) logs(frame.bin) = loading.add(new BinLog(budget))
    val log = logs(frame.bin)
    reader.pieces(frame, compressions).foreach { records =>
      try log.apply(records, 0, records.length)
      catch {
        case e: DamagedRecordsException =>
          throw new DamagedFileException(
            frame.file.toString,
            Some(frame.bin),
            "whole records",
            e.damage
          )
      }
      check(records)
      applied(log)
    }
  }

  /** Under checkpoint format v1 a late attempt of the same batch may have written the file again:
    * the same state in other frames. The file's own footer lists the bin's new frame.
    */
  private def applyRewritten(
      reader: DeltaFile.Reader,
      wanted: Frame,
      logs: mutable.Map[Int, BinLog],
      loading: HeapBudget.Loading,
      applied: BinLog => Unit,
      damage: DamagedFileException
  ): Unit = {
    val bin = wanted.bin
    standIn(reader.footer, wanted) match {
      case Some(frame) => applyFrame(reader, frame, logs, loading, applied)
      case None =>
        /* Sequential, because this may be one of the threads that load in parallel, and they must
         * not wait for each other. Who waits for it sees that it gets on. */
        def checkOne(records: Array[Byte]): Unit = { check(records); applied(logs(bin)) }
        val alone = new Recovery(files, compressions, Parallel.Sequential, budget, checkOne)
        try logs(bin) = loading.add(alone.loadOne(wanted.file, bin))
        catch { case e: Exception => damage.addSuppressed(e); throw damage }
    }
  }
}

object Recovery {

  /** Looks at no records. */
  val Unchecked: Array[Byte] => Unit = _ => ()
  private val ShareBytesMin = 2L << 20 // raw

  /** The frames of a bin, and its number of live keys. */
  final case class Located(chain: Chain, keyCount: Long)

  /** @param traffic
    *   bytes read, as stored
    * @param lineage
    *   the files that led to the worker's state, newest first
    */
  final case class Loaded(bins: Map[Int, LoadedBin], traffic: Traffic, lineage: Vector[FileName])

  /** The frame of a rewritten file that replaces a frame of the file before it: a tail or an image
    * for a tail, an image for an image.
    */
  private[megaphone] def standIn(footer: Footer, wanted: Frame): Option[Frame] =
    footer.frameOf.get(wanted.bin).filter(frame => frame.isImage || !wanted.isImage)

  private def framesOf(located: Map[Int, Located]): Vector[Frame] =
    located.valuesIterator.flatMap(_.chain.frames).toVector

  private def filesOf(located: Map[Int, Located]): Vector[FileName] =
    framesOf(located).map(_.file).distinct

  private def bytesOf(located: Located): Long = located.chain.imageBytes + located.chain.tailBytes
}
