// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import scala.collection.mutable

import io.megaphone.format.{FileName, Footer, Frame, StateName}

/** Finds the files that no retained version needs: rules 21 and 22. Run by the driver alone,
  * because a bin's chain crosses workers (H12).
  *
  *   1. `referenced` reads the footers of all workers at the oldest version s that is retained, and
  *      gives the files that their bins' chains point into. Anything missing or damaged is an
  *      error: then there is no sweep.
  *   1. `unneeded` are the files of version s - 16 or older that are not among them. No later
  *      version needs them either, for a chain never regains a file. Under checkpoint format v1
  *      those that the newest settled version references are left out, too.
  *
  * Under v1 a late attempt may have written a file anew. References into it then lead on to what
  * its own footer says, as in [[Recovery]].
  *
  * A death at any point: the next sweep, of this run or another, finds the same files.
  */
final class Sweep(recovery: Recovery) {

  /** The files that the bins of some workers need. Throws PlanLogMismatchException where a head was
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

  /** A worker's newest file at a version, the bins that the plan log gives the worker there, and
    * the content hash of the table that says so.
    */
  final case class Head(file: FileName, bins: Vector[Int], tableHash: Long)

  /** Of the files listed, those that no version from `oldest` on needs. */
  def unneeded(listed: Iterable[FileName], referenced: Set[FileName], oldest: Long): Set[FileName] =
    listed.iterator.filter(f => f.name.version <= oldest - Footer.Slices && !referenced(f)).toSet
}
