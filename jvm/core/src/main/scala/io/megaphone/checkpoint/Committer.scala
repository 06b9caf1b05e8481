// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import io.megaphone.format.{
  Chain, Compression, DeltaFile, FileName, Footer, Frame, StateName, WriterId
}
import io.megaphone.log.BinLog
import io.megaphone.state.{Holding, StoreBatch}

/** Writes a worker's commit: rules 15, 16 and 20.
  *
  * Given a holding with the batch's records, under the lease.
  *   1. Choose the bins to write as images: those whose chains have become much longer than the
  *      bin, or have `framesMax` frames. The longest chains come first. The images of one commit
  *      have no more bytes than its tails, so no batch pays for a whole snapshot. Small changes to
  *      large bins would fall behind at that pace. So each commit also writes a share of the bins
  *      that have `framesMax` frames: no chain gets more than twice as many. A bin that was
  *      incomplete for long may have. Of such bins a commit writes one in `framesMax`: all at once
  *      they would be most of a worker's state.
  *   1. Write one delta file: an image of each bin chosen, and the tail of each other bin that was
  *      touched. ''Dies before the file is durable:'' nothing happened.
  *   1. Once the file is durable, make the commit the holding's head: memory is never ahead of
  *      files. ''Dies after:'' the file is an orphan that no commit log names. Under checkpoint
  *      format v1 the next attempt replaces it.
  *
  * A bin that may be incomplete by the batch's plan gets no image (I13).
  *
  * The choice depends on the plan, the chains and the records alone: under checkpoint format v1
  * another attempt of the same batch may write the file again, when the first attempt's memory is
  * gone, and must write the same frames.
  *
  * Threads: one, the task's.
  */
final class Committer(files: StateFiles, compression: Compression, limits: Committer.Limits) {

  /** Commits the records of `holding` since its base as `name`. Throws what the files throw; the
    * holding is then as it was.
    *
    * @param isWhole
    *   whether to write an image of every bin, but of those that may be incomplete
    */
  def apply(
      holding: Holding,
      batch: StoreBatch,
      name: StateName,
      writer: WriterId,
      isWhole: Boolean = false
  ): Committer.Written = {
    val file = FileName(holding.worker, name)
    def isTouched(bin: Int) = holding.here(bin).isTouched
    val touched = {
      if (isWhole)
        holding.bins.filter(b => !holding.isLeaving(b) && (isTouched(b) || !batch.incomplete(b)))
      else holding.touched.iterator.filter(isTouched)
    }.toVector
    val mayBeImaged = touched.filterNot(batch.incomplete)
    val imaged = if (isWhole) mayBeImaged.toSet else chooseImages(holding, mayBeImaged)
    val out = files.create(file)
    try {
      val writing = new DeltaFile.Writer(out, compression, file, writer, limits.pieceBytes)
      touched.foreach { bin =>
        val log = holding.here(bin)
        if (imaged(bin)) writing.image(bin, log) else writing.tail(bin, log.tail())
      }
      var chains = Vector.empty[(Int, Chain)]
      val footer = writing.finish { frames =>
        chains = frames.map(f => f.bin -> (holding.chain(f.bin) + f))
        footerOf(holding, batch, file, writer, frames, chains)
      }
      out.close()
      holding.commit(name, file, chains)
      Committer.Written(footer, writing.bytes)
    } catch { case e: Throwable => out.cancel(); throw e }
  }

  private def footerOf(
      holding: Holding,
      batch: StoreBatch,
      file: FileName,
      writer: WriterId,
      frames: Vector[Frame],
      newChains: Vector[(Int, Chain)]
  ): Footer = {
    val listed = holding.bins
      .filter(bin => !holding.isLeaving(bin) && isListed(holding, bin, file.name.version))
      .toSet
    val chains =
      listed.iterator.map(bin => bin -> holding.chain(bin)).toMap ++ newChains.iterator.filter(c =>
        listed(c._1)
      )
    val keyCounts = Footer
      .counted(frames, chains)
      .iterator
      .map(bin => bin -> holding.stateOf(bin).keyCount)
      .toMap
    Footer(
      file,
      writer,
      holding.base,
      batch.after.number,
      batch.after.contentHash,
      frames,
      chains,
      keyCounts,
      holding.leaving.toVector,
      holding.lineage
    )
  }

  private def isListed(holding: Holding, bin: Int, version: Long): Boolean =
    holding.lineage.isEmpty || holding
      .isAdopted(bin) || Footer.sliceOf(bin, holding.binsCount) == version % Footer.Slices

  private def chooseImages(holding: Holding, touched: Vector[Int]): Set[Int] = {
    val due = touched
      .filter(bin => isDue(holding.chain(bin), holding.here(bin)))
      .sortBy(bin => -holding.chain(bin).frameCount)
    val (late, inTime) = due.partition(holding.chain(_).frameCount > 2 * limits.framesMax)
    val paceOfLate = math.ceil(late.size.toDouble / math.max(1, limits.framesMax)).toInt
    val pace = inTime.iterator.map(bin => paceOf(holding.chain(bin))).sum.toInt
    val budget = touched.iterator.map(bin => holding.here(bin).tailBytes).sum
    val left = due.scanLeft(budget)((bytes, bin) => bytes - holding.here(bin).liveBytes)
    val affordable = due.indices.iterator.takeWhile(left(_) > 0).map(due)
    (affordable ++ late.take(paceOfLate) ++ inTime.take(pace)).toSet
  }

  /** The share of a bin that this commit must write, if the bin has `framesMax` frames and not
    * twice as many yet: one part of as many as commits are left until it has.
    */
  private def paceOf(chain: Chain): Double =
    if (chain.frameCount < limits.framesMax) 0
    else 1.0 / (2 * limits.framesMax - chain.frameCount + 1)

  private def isDue(chain: Chain, log: BinLog): Boolean =
    chain.frameCount >= limits.framesMax ||
      chain.imageBytes + chain.tailBytes + log.tailBytes > 2 * log.liveBytes + limits.slackBytes
}

object Committer {

  /** @param framesMax
    *   number of frames of a chain that makes the bin due for an image
    * @param slackBytes
    *   how far a chain may exceed twice the bin's live bytes, in raw bytes, before the bin is due
    *   for an image
    * @param pieceBytes
    *   how many bytes of records are written at once
    */
  final case class Limits(
      framesMax: Int = 32,
      slackBytes: Long = 4096,
      pieceBytes: Int = DeltaFile.PieceBytes
  )

  final case class Written(footer: Footer, bytes: Long)
}
