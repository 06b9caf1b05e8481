// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import scala.collection.mutable

import io.megaphone.errors.{DamagedFileException, PlanLogMismatchException}
import io.megaphone.format.{
  Chain, Chunk, Compressions, DeltaFile, FileName, Footer, Frame, StateName
}
import io.megaphone.log.BinLog
import io.megaphone.log.memory.{DamagedRecordsException, HeapBudget}
import io.megaphone.state.LoadedBin

/** Rebuilds bins from the files of a checkpoint.
  *
  *   1. `footers` reads a worker's footer at a name and those of its 15 predecessors, as far as
  *      there are so many.
  *   1. The newest footer says under which routing table the file was written. It must be the table
  *      that the plan log has for that version.
  *   1. `chains` finds each bin's chain among them: the newest full one, and the bin's frames in
  *      newer footers. A bin that none of them lists is an error: missing is never read as empty.
  *      So is a bin that has left the worker since its newest full chain.
  *   1. `load` reads exactly those frames, file by file from the oldest, and applies them, bins of
  *      many bytes side by side; the live keys must be as many as the footer counted.
  *
  * Nothing is written, so a death at any step costs nothing but the time. Any thread.
  *
  * @param check
  *   is shown the records of each frame that is read, and may throw: of what they mean, a log knows
  *   nothing. Several threads at once
  */
class Recovery(
    files: StateFiles,
    compressions: Compressions,
    together: Parallel = Parallel.Sequential,
    budget: HeapBudget = HeapBudget.Unlimited,
    check: Array[Byte] => Unit = Recovery.Unchecked
) {
  import Recovery._

  /** The footer of a file. */
  def footer(file: FileName): Footer = {
    val source = files.open(file)
    try {
      val footer = new DeltaFile.Reader(source).footer
      if (footer.file != file)
        throw new DamagedFileException(
          source.name,
          None,
          s"the state of worker ${file.worker} at ${file.name}",
          s"that of worker ${footer.file.worker} at ${footer.file.name}"
        )
      footer
    } finally source.close()
  }

  /** The footer of a file that was written under the routing table of this content hash. Throws
    * PlanLogMismatchException if it was not.
    */
  def footer(file: FileName, tableHash: Long): Footer = {
    val found = footer(file)
    checkTable(found, tableHash)
    found
  }

  /** A worker's footers that tell its chains, newest first. */
  def footers(file: FileName): Vector[Footer] = withPrevious(footer(file))

  private def withPrevious(newest: Footer): Vector[Footer] =
    newest +: together(newest.previous.map(f => () => footer(f))).toVector

  /** The same, of a file that was written under the routing table of this content hash. Throws
    * PlanLogMismatchException if it was not.
    */
  def footers(file: FileName, tableHash: Long): Vector[Footer] = withPrevious(
    footer(file, tableHash)
  )

  /** Compares the table that a file was written under with the one that the plan log has for its
    * version.
    */
  protected def checkTable(footer: Footer, tableHash: Long): Unit =
    if (footer.tableHash != tableHash)
      throw PlanLogMismatchException.otherTable(
        footer.file.toString,
        footer.tableNumber,
        footer.file.name.version
      )

  /** Refuses a bin that has left its worker: what the worker's files have of it is of before. */
  protected def checkHasNotLeft(footers: Vector[Footer], bin: Int): Unit =
    footers
      .find(_.left.contains(bin))
      .foreach(footer =>
        throw PlanLogMismatchException.left(footer.file.toString, footer.file.worker, bin)
      )

  /** The chains, and counts of live keys, of `bins` as the newest of `footers` left them. Throws
    * DamagedFileException for a bin that none of them lists, PlanLogMismatchException for one that
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
  def load(file: FileName, bins: Iterable[Int], tableHash: Long): Loaded =
    load(footers(file, tableHash), bins)

  private def load(all: Vector[Footer], bins: Iterable[Int]): Loaded =
    load(chains(all, bins)).copy(lineage = all.map(_.file).take(Footer.PreviousMax))

  /** The frames that one file has of some bins, with their records. Throws PlanLogMismatchException
    * as `footer` does.
    */
  def frames(file: FileName, bins: Set[Int], tableHash: Long): Vector[(Frame, Array[Byte])] = {
    val source = files.open(file)
    try {
      val reader = new DeltaFile.Reader(source)
      checkTable(reader.footer, tableHash)
      reader.footer.frames.filter(f => bins(f.bin)).map { f =>
        val records = reader.records(f, compressions)
        check(records)
        f -> records
      }
    } finally source.close()
  }

  /** Loads bins by their chains. */
  def load(located: Map[Int, Located]): Loaded = budget.loading { loading =>
    val parts = together(shares(located).map(share => () => loadShare(share, loading)))
    Loaded(parts.iterator.flatMap(_.bins).toMap, parts.map(_.bytes).sum, Vector.empty)
  }

  /** Bins in as many shares as are loaded at once, of about the same bytes, side by side as they
    * share chunks; one where there is little to load.
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

  private def loadShare(located: Map[Int, Located], loading: HeapBudget.Loading): Loaded = {
    val logs = mutable.Map.from(located.map { case (bin, _) =>
      bin -> loading.add(new BinLog(budget))
    })
    val byFile = located.valuesIterator.flatMap(_.chain.frames).toVector.groupBy(_.file)
    val bytes = byFile.toSeq
      .sortBy { case (file, _) => file.name.version }
      .map { case (file, frames) =>
        apply(file, frames, logs, () => loading.add(new BinLog(budget)))
      }
      .sum
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
      bytes,
      Vector.empty
    )
  }

  /** Applies frames of one file; gives the bytes read. */
  def apply(
      file: FileName,
      frames: Vector[Frame],
      logs: mutable.Map[Int, BinLog],
      newLog: () => BinLog = () => new BinLog(budget)
  ): Long = {
    val source = files.open(file)
    try {
      val reader = new DeltaFile.Reader(source)
      val rewritten = mutable.Map.empty[Chunk, DamagedFileException]
      frames.sortBy(frame => (frame.chunk.offset, frame.at)).foreach { frame =>
        if (!rewritten.contains(frame.chunk))
          try applyFrame(reader, frame, logs, newLog)
          catch {
            case damage: DamagedFileException
                if file.name.id == StateName.FixedId && reader.footer.writer != frame.chunk.writer =>
              rewritten(frame.chunk) = damage
          }
        rewritten.get(frame.chunk).foreach(applyRewritten(reader, frame, logs, newLog, _))
      }
      frames.iterator.map(_.chunk).distinct.map(_.storedBytes.toLong).sum
    } finally source.close()
  }

  /** Applies a frame's records to a bin's log; an image takes the place of the log. */
  private def applyFrame(
      reader: DeltaFile.Reader,
      frame: Frame,
      logs: mutable.Map[Int, BinLog],
      newLog: () => BinLog
  ): Unit = {
    val records = reader.records(frame, compressions)
    try {
      if (frame.isImage) logs(frame.bin) = newLog()
      logs(frame.bin).apply(records, 0, records.length)
    } catch {
      case e: DamagedRecordsException =>
        throw new DamagedFileException(
          frame.file.toString,
          Some(frame.bin),
          "whole records",
          e.damage
        )
    }
    check(records)
  }

  /** Under checkpoint format v1 a late attempt of the same batch may have written the file anew:
    * the same state in other frames. Its own footers tell where the bin is now.
    */
  private def applyRewritten(
      reader: DeltaFile.Reader,
      wanted: Frame,
      logs: mutable.Map[Int, BinLog],
      newLog: () => BinLog,
      damage: DamagedFileException
  ): Unit = {
    val bin = wanted.bin
    standIn(reader.footer, wanted) match {
      case Some(frame) => applyFrame(reader, frame, logs, newLog)
      case None =>
        /* Alone: this may be one of the threads that load together, and they cannot wait for each
         * other. */
        val alone = new Recovery(files, compressions, Parallel.Sequential, budget, check)
        try logs(bin) = alone.load(alone.footers(wanted.file), Seq(bin)).bins(bin).log
        catch { case e: Exception => damage.addSuppressed(e); throw damage }
    }
  }
}

object Recovery {
  private val Unchecked: Array[Byte] => Unit = _ => ()
  private val ShareBytesMin = 2L << 20 // raw

  /** Where a bin is, and how many live keys it has. */
  final case class Located(chain: Chain, keyCount: Long)

  /** @param bytes
    *   read, as stored
    * @param lineage
    *   the files the worker's state came by, newest first
    */
  final case class Loaded(bins: Map[Int, LoadedBin], bytes: Long, lineage: Vector[FileName])

  /** The frame of a rewritten file that does for one of the file that was there before: another
    * tail for a tail, an image for either.
    */
  private[megaphone] def standIn(footer: Footer, wanted: Frame): Option[Frame] =
    footer.frameOf.get(wanted.bin).filter(frame => frame.isImage || !wanted.isImage)

  private def bytesOf(located: Located): Long = located.chain.imageBytes + located.chain.tailBytes
}
