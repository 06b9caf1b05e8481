// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import scala.collection.mutable

import io.megaphone.format.{FileName, Footer, Frame, StateName}

/** Finds the files that no retained version needs: rules 21 and 22. Only the driver calls it,
  * because a bin's chain crosses workers (H12).
  *
  * Given the newest files of all workers at the oldest version s that is retained.
  *   1. `referenced` reads their footers, and returns the files that their bins' chains point into.
  *      Anything missing or damaged is an error: nothing is deleted then.
  *   1. `unneeded` returns the other files of version s - 16 or older. No later version needs them
  *      either, because a chain never regains a file. Under checkpoint format v1 the caller also
  *      counts the files that the newest settled version references.
  *
  * Under v1 a late attempt may have written a file again. Chains that point into it are then
  * followed by the file's own footer, as in [[Recovery]].
  *
  * ''Dies at any point:'' the next sweep, of this run or another, finds the same files.
  *
  * Threads: one.
  */
final class Sweep(recovery: Recovery) {

  /** The files that the bins of some workers need. Throws PlanLogMismatchException if a head was
    * not written under the table that the plan log has.
    */
  def referenced(heads: Iterable[Sweep.Head]): Set[FileName] = {
    val files = mutable.HashSet.empty[FileName]
    val seen = mutable.HashSet.empty[(FileName, Int, Boolean)]
    val footers = mutable.HashMap.empty[FileName, Footer] // v1 only
    val rest = mutable.Queue.from(
      heads.iterator.flatMap(head => frames(recovery.footers(head.file, head.tableHash), head.bins))
    )
    while (rest.nonEmpty) {
      val frame = rest.dequeue()
      files += frame.file
      if (
        frame.file.name.id == StateName.FixedId && seen.add((frame.file, frame.bin, frame.isImage))
      ) {
        val footer = footers.getOrElseUpdate(frame.file, recovery.footer(frame.file))
        if (footer.writer != frame.chunk.writer && Recovery.standIn(footer, frame).isEmpty) {
          val all = recovery.footers(frame.file)
          files ++= all.iterator.map(_.file)
          rest ++= frames(all, Seq(frame.bin))
        }
      }
    }
    files.toSet
  }

  private def frames(footers: Vector[Footer], bins: Iterable[Int]): Iterator[Frame] =
    recovery.chains(footers, bins).valuesIterator.flatMap(_.chain.frames)
}

object Sweep {

  /** A worker's newest file at a version, the bins that the plan log gives the worker at that
    * version, and the content hash of the table that does.
    */
  final case class Head(file: FileName, bins: Vector[Int], tableHash: Long)

  /** The listed files that no version from `oldest` on needs. */
  def unneeded(listed: Iterable[FileName], referenced: Set[FileName], oldest: Long): Set[FileName] =
    listed.iterator.filter(f => f.name.version <= oldest - Footer.Slices && !referenced(f)).toSet
}
