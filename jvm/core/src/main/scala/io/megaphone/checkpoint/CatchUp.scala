// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import scala.collection.mutable

import io.megaphone.errors.DamagedFileException
import io.megaphone.format.{Chain, FileName, Footer, StateName}
import io.megaphone.log.BinLog
import io.megaphone.state.Holding

/** Brings a holding forward to a newer name of its worker by the tails between: the same for a
  * worker that missed batches, a prepared copy and a replica.
  *
  *   1. The newest footer tells the names that lead to it. If the holding's name is not among them,
  *      there is no unbroken way: it says so and changes nothing.
  *   1. Tail by tail: a bin that left the worker is dropped, for what the holding has of it is void
  *      from there on; the frames of the bins it has are applied.
  *   1. After each tail the holding has that tail's name.
  *
  * A death between two tails leaves a holding at a valid name. The caller has the lease, or is the
  * only one to know the holding.
  */
final class CatchUp(recovery: Recovery) {

  /** Brings `holding` to `name`, by files; the bytes read, or None where the way is broken. A head
    * on the way is settled, one beside it undone. Throws PlanLogMismatchException if the newest
    * file was not written under the table of this content hash.
    */
  def apply(holding: Holding, name: StateName, tableHash: Long): Option[Long] = {
    if (holding.base == name) Some(0L)
    else if (holding.base.version >= name.version) None
    else {
      val newest = recovery.footer(FileName(holding.worker, name), tableHash)
      val names = newest.file +: newest.previous
      if (holding.head.exists(head => names.exists(_.name == head))) holding.settle()
      else holding.undoHead()
      val known = names.indexWhere(_.name == holding.base)
      if (known < 0) None
      else {
        val missing = names.take(known).reverse
        Some(
          missing
            .map(file =>
              applyTail(holding, if (file == newest.file) newest else recovery.footer(file))
            )
            .sum
        )
      }
    }
  }

  private def applyTail(holding: Holding, footer: Footer): Long = {
    if (footer.base != holding.base)
      throw new DamagedFileException(
        footer.file.toString,
        None,
        s"a tail on ${holding.base}",
        s"one on ${footer.base}"
      )
    footer.left.foreach(holding.drop)
    val frames = footer.frames.filter(f => holding.has(f.bin))
    val logs = mutable.Map.from(frames.map(frame => frame.bin -> holding.log(frame.bin)))
    val lineage = footer.file +: footer.previous.take(Footer.PreviousMax - 1)
    CatchUp.advance(
      holding,
      footer.file.toString,
      footer,
      logs,
      bin => holding.chain(bin) + footer.frameOf(bin),
      lineage
    ) {
      if (frames.isEmpty) 0L else recovery.apply(footer.file, frames, logs)
    }
  }
}

object CatchUp {

  /** Applies a tail to settled logs and takes it over: settles them, and names the holding. Where
    * applying fails, or the keys are not as many as the footer counted, it is taken back from all
    * of them: what was lengthened by half a tail would be lengthened once more when the tail comes
    * again.
    *
    * @param logs
    *   those that the tail is for, by bin; `apply` may put others in their places
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

  /** Compares the keys of logs with what a footer counted. Throws DamagedFileException. */
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
