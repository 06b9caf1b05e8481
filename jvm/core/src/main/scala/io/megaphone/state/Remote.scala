// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import scala.collection.mutable

import io.megaphone.format.{Chain, ExecutorAddress, StateName}
import io.megaphone.log.{Due, RowTime}

/** What of a bin is elsewhere: the sub-bins that a step on demand has not brought yet.
  *
  *   - A sub-bin is wholly here, even if it has no record, or wholly elsewhere (I11). What is
  *     elsewhere nobody has read or written since the step.
  *   - What is elsewhere has one name for ever, whoever serves it (I12).
  *
  * Threads: those of its holding.
  *
  * @param key
  *   the export of the step's source that has it
  * @param name
  *   the state of the source that the step took
  * @param chain
  *   rebuilds the bin at that name; that of the bin itself goes on from it
  * @param at
  *   the executor that ran the source; None if it is not known, or is lost
  * @param keys
  *   how many keys the bin had then, in all families
  */
final class Remote(
    val key: ReplicaKey,
    val name: StateName,
    val chain: Chain,
    val at: Option[ExecutorAddress],
    val keys: Long
) {
  private val here = new IntSet

  /** The hash from which on the rest is still to be asked for. */
  private[megaphone] var restFrom: Int = Int.MinValue

  /** How many sub-bins tasks have asked for: the rest of a bin that they need often comes first. */
  @volatile private[megaphone] var asked: Int = 0
  private var keysTaken = 0L
  private val notDueBefore = mutable.Map.empty[RowTime, Long]

  /** What of the same bin is elsewhere in another store that tells which of these rows are due: its
    * source can tell as long as this step is not complete, also once that store has all.
    */
  private[megaphone] var teller = Option.empty[Remote]

  /** A time before which no row that is elsewhere has its time. */
  def noneBefore(time: RowTime): Long = notDueBefore.getOrElse(time, Long.MinValue)

  /** Whether a row that is elsewhere may be due. */
  def mayHave(due: Due): Boolean = noneBefore(due.time) <= due.until

  /** Notes that no row that is elsewhere has such a time before this one. */
  private[megaphone] def hasNone(time: RowTime, before: Long): Unit = notDueBefore(time) = before

  /** Whether the sub-bin of a hash is here. */
  def isHere(hash: Int): Boolean = here.contains(hash)

  /** The hashes of sub-bins that are here, from one on, ascending: as many as a question about the
    * rest has room for. Any thread: what comes meanwhile may be missing.
    */
  def hereFrom(hash: Int): Array[Int] = here.from(hash, Remote.HereMax)

  /** Notes that a sub-bin is here now, with so many keys. */
  def brought(hash: Int, keys: Int): Unit = if (here.add(hash)) keysTaken += keys

  /** How many sub-bins are here. */
  def broughtCount: Int = here.size

  /** How many keys are elsewhere. */
  def keysElsewhere: Long = keys - keysTaken

  /** About how many bytes of records are elsewhere. */
  def bytesElsewhere: Long =
    ((chain.imageBytes + chain.tailBytes).toDouble / keys * keysElsewhere).toLong

  def heapBytes: Long = here.heapBytes + Remote.OwnBytes
}

private object Remote {
  private val OwnBytes = 64L
  private val HereMax = 1 << 14 // some three bytes each
}
