// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import io.megaphone.format.{
  Chain, Compression, DeltaFile, FileName, Footer, Frame, StateName, WriterId
}
import io.megaphone.log.BinLog
import io.megaphone.state.{Holding, StoreBatch}

/** Writes a worker's commit: one delta file, then, once it is durable, the holding's head (rule 16:
  * memory is never ahead of files).
  *
  * A bin that was touched gives its tail as it stands or, when it is due, an image: when its chain
  * has grown much longer than the bin, or has `framesMax` frames. The longest chains come first,
  * and no more images are written in one commit than tails (in bytes), so no batch pays for a whole
  * snapshot. Many small changes to large bins would not keep pace so: bins whose chains have grown
  * together are written one after the other, so many in a commit that the last is written before it
  * has more than twice `framesMax`.
  *
  * The choice follows from the chains and the records alone: under checkpoint format v1 another
  * attempt of the same batch may write the file anew, long after its predecessors are gone, and
  * must write the same frames.
  *
  * Dies before the file is durable: nothing happened. Dies after: the file is an orphan that no
  * commit log names, or, under checkpoint format v1, is replaced by the next attempt.
  */
final class Committer(files: StateFiles, compression: Compression, limits: Committer.Limits) {

  /** Commits what `holding` has on its base as `name`; where all bins are asked for, an image of
    * each. Throws what the files throw; the holding is then as it was.
    */
  def apply(
      holding: Holding,
      turn: StoreBatch,
      name: StateName,
      writer: WriterId,
      isWhole: Boolean = false
  ): Committer.Committed = {
    val file = FileName(holding.worker, name)
    val touched =
      if (isWhole) holding.bins.filterNot(holding.isLeaving).toVector
      else holding.touched.toVector.filter(bin => holding.log(bin).isTouched)
    val imaged = if (isWhole) touched.toSet else chooseImages(holding, touched)
    val out = files.create(file)
    try {
      val writing = new DeltaFile.Writer(out, compression, file, writer)
      touched.foreach { bin =>
        val log = holding.log(bin)
        if (imaged(bin)) writing.image(bin, log) else writing.tail(bin, log.tail())
      }
      var chains = Vector.empty[(Int, Chain)]
      val footer = writing.finish { frames =>
        chains = frames.map(f => f.bin -> (holding.chain(f.bin) + f))
        footerOf(holding, turn, file, writer, frames, chains)
      }
      out.close()
      holding.commit(name, file, chains)
      Committer.Committed(footer, writing.bytes)
    } catch { case e: Throwable => out.cancel(); throw e }
  }

  private def footerOf(
      holding: Holding,
      turn: StoreBatch,
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
      .map(bin => bin -> holding.log(bin).keyCount.toLong)
      .toMap
    Footer(
      file,
      writer,
      holding.base,
      turn.after.number,
      turn.after.contentHash,
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
      .filter(bin => isDue(holding.chain(bin), holding.log(bin)))
      .sortBy(bin => -holding.chain(bin).frameCount)
    val pace = due.iterator.map(bin => paceOf(holding.chain(bin))).sum.toInt
    val budget = touched.iterator.map(bin => holding.log(bin).tailBytes).sum
    val left = due.scanLeft(budget)((bytes, bin) => bytes - holding.log(bin).liveBytes)
    due.indices.iterator.takeWhile(i => i < pace || left(i) > 0).map(due).toSet
  }

  /** What a bin that is due by its frames asks of this commit: an even share of the commits that
    * are left to it, all of the last one.
    */
  private def paceOf(chain: Chain): Double =
    if (chain.frameCount < limits.framesMax) 0
    else 1.0 / math.max(1, 2 * limits.framesMax - chain.frameCount + 1)

  private def isDue(chain: Chain, log: BinLog): Boolean =
    chain.frameCount >= limits.framesMax || chain.imageBytes + chain.tailBytes + log.tailBytes > 2 * log.liveBytes + limits.slackBytes
}

object Committer {

  /** @param framesMax
    *   frames of a chain from which on the bin is due for an image
    * @param slackBytes
    *   raw bytes of a chain beyond twice the bin's live bytes that make no image due
    */
  final case class Limits(framesMax: Int = 32, slackBytes: Long = 4096)

  final case class Committed(footer: Footer, bytes: Long)
}
