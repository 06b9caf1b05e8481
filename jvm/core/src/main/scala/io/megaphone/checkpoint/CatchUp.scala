// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import scala.annotation.tailrec
import scala.collection.mutable

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{Chain, FileName, Footer, StateName}
import io.megaphone.log.BinLog
import io.megaphone.state.{Holding, Traffic}

/** Brings a holding forward to a newer name of its worker by the tails in between: a worker's that
  * missed batches, or a replica.
  *
  * Given a holding, and a newer name of its worker.
  *   1. Read the footer of the newest file, which lists the names that lead to it, and that of the
  *      oldest of them, until the holding's name is among them. If it is none of them, stop: no
  *      unbroken sequence of tails leads on from it. Version 0 has no file; it is the one that the
  *      files of version 1 lead on from.
  *   1. Settle the head if it is one of those names; else undo it. Drop the bins that are
  *      incomplete: tails of what is elsewhere have nothing to go on. Who opens or keeps the
  *      holding loads what it lacks.
  *   1. For each missing file, from the oldest: drop the bins that left the worker with it, because
  *      their records in this holding are void from then on. Apply the frames of the other bins.
  *      The holding then has the file's name.
  *
  * ''Dies between two files:'' the holding is at a valid name. ''Applying fails:'' the holding is
  * at the name before that file.
  *
  * Threads: one that has the lease, or that alone knows the holding.
  *
  * @param tailsMax
  *   how many tails there may be. What one footer lists is on any file system still there
  * @param departed
  *   hands over a bin of this chain, which has left another worker of this executor: one that the
  *   holding's worker has taken in meanwhile need not be read from files
  * @param gotOn
  *   is called after each piece of records that was applied
  */
final class CatchUp(
    recovery: Recovery,
    tailsMax: Int = Footer.PreviousMax,
    departed: (Int, Chain) => Option[BinLog] = (_, _) => None,
    gotOn: () => Unit = () => ()
) {

  /** Brings `holding` to `name`, or `atOnce` tails further on the way there. Returns the bytes
    * read, or None if no unbroken sequence of tails leads there. Throws PlanLogMismatchException if
    * the newest file was not written under the table of this content hash; DamagedFileException or
    * MissingFileException for a file.
    */
  def apply(
      holding: Holding,
      name: StateName,
      tableHash: Long,
      atOnce: Int = Int.MaxValue
  ): Option[Traffic] =
    if (holding.base == name) Some(Traffic())
    else if (!canLead(holding.base.version, name.version)) None
    else recovery.opening(byTails(_, holding, name, tableHash, atOnce))

  /** Whether tails may lead from one version to another. */
  def canLead(from: Long, to: Long): Boolean = from < to && to - from <= tailsMax

  private def byTails(
      opened: OpenFiles,
      holding: Holding,
      name: StateName,
      tableHash: Long,
      atOnce: Int
  ): Option[Traffic] = {
    val newest = recovery.checked(FileName(holding.worker, name), tableHash, opened.footer(_))
    val names = leadingTo(opened, newest, holding.base.version)
    if (holding.head.exists(head => names.exists(_.name == head))) holding.settle()
    else holding.undoHead()
    val isFromFirst = holding.base.version == 0 && names.last.name.version == 1
    val known = if (isFromFirst) names.size else names.indexWhere(_.name == holding.base)
    Option.when(known >= 0) {
      holding.dropIncomplete()
      val missing = names.take(known).reverse.take(atOnce)
      opened.keep(missing)
      missing.map(applyTail(opened, holding, _)).foldLeft(Traffic())(_ + _)
    }
  }

  /** The files that lead to one, newest first, back to that of a version or the first of all. */
  private def leadingTo(opened: OpenFiles, newest: Footer, version: Long): Vector[FileName] = {
    @tailrec
    def go(names: Vector[FileName], previous: Vector[FileName]): Vector[FileName] = {
      val all = names ++ previous
      if (previous.isEmpty || all.last.name.version <= math.max(1, version)) all
      else go(all, opened.footer(all.last).previous)
    }
    go(Vector(newest.file), newest.previous)
  }

  private def applyTail(opened: OpenFiles, holding: Holding, file: FileName): Traffic = {
    val footer = opened.footer(file)
    if (footer.base != holding.base)
      throw new DamagedFileException(
        footer.file.toString,
        None,
        s"a tail on ${holding.base}",
        s"one on ${footer.base}"
      )
    footer.left.foreach(holding.drop)
    val came = takeDeparted(holding, footer)
    try applyFrames(opened, holding, footer)
    catch { case e: Throwable => came.foreach(holding.drop); throw e }
  }

  /** Adds the bins that came to the worker with a tail, as they were before it. Returns them. */
  private def takeDeparted(holding: Holding, footer: Footer): Vector[Int] = for {
    (bin, chain) <- footer.chains.toVector
    if !holding.has(bin)
    frame = footer.frameOf.get(bin)
    if !frame.exists(_.isImage)
    before = if (frame.isEmpty) chain else chain.init
    log <- departed(bin, before)
  } yield { holding.put(bin, log, before); bin }

  private def applyFrames(opened: OpenFiles, holding: Holding, footer: Footer): Traffic = {
    val frames = footer.frames.filter(f => holding.has(f.bin))
    val logs = mutable.Map.from(frames.map(frame => frame.bin -> holding.here(frame.bin)))
    val lineage = footer.file +: footer.previous.take(Footer.PreviousMax - 1)
    recovery.loading { loading =>
      CatchUp.advance(
        holding,
        footer.file.toString,
        footer,
        logs,
        bin => holding.chain(bin) + footer.frameOf(bin),
        lineage
      ) {
        if (frames.isEmpty) Traffic()
        else opened.read(footer.file)(recovery.apply(_, frames, logs, loading, _ => gotOn()))
      }
    }
  }
}

object CatchUp {

  /** Applies a tail to settled logs, settles them, and names the holding after the tail.
    *
    * If applying fails, or the footer counted other numbers of keys, the tail is undone in all logs
    * and the exception is thrown. Otherwise a value that half of the tail lengthened would be
    * lengthened again when the tail is applied again.
    *
    * @param logs
    *   the logs that the tail is for, by bin; `apply` may replace some of them
    */
  private[megaphone] def advance[A](
      holding: Holding,
      source: String,
      footer: Footer,
      logs: collection.Map[Int, BinLog],
      chainOf: Int => Chain,
      lineage: Vector[FileName]
  )(apply: => A): A = {
    val settled = logs.values.toVector
    val applied =
      try { val a = apply; check(source, footer, logs); a }
      catch { case e: Throwable => settled.foreach(_.undo()); throw e }
    logs.foreach { case (bin, log) => log.settle(); holding.put(bin, log, chainOf(bin)) }
    holding.restart(footer.file.name, lineage)
    applied
  }

  /** Compares the keys of logs with a footer's counts. Throws DamagedFileException. */
  private[megaphone] def check(
      source: String,
      footer: Footer,
      logs: collection.Map[Int, BinLog]
  ): Unit =
    logs.foreach { case (bin, log) =>
      val expected = footer.keyCounts.getOrElse(bin, -1L)
      if (log.keyCount.toLong != expected)
        throw new DamagedFileException(source, Some(bin), s"$expected keys", s"${log.keyCount}")
    }
}
