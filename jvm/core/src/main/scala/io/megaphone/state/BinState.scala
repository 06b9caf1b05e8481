// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import io.megaphone.log.BinLog

/** Whether a holding has a bin, and how.
  *
  * Every reader of presence goes through this type.
  */
sealed abstract class BinState {

  /** Whether the holding has the bin, so that its rows may be read and written. */
  def isPresent: Boolean

  /** The log of the records that are in this memory; None if the bin is absent. */
  def here: Option[BinLog]

  /** What of the bin is elsewhere; None if nothing is, or the bin is absent. */
  def elsewhere: Option[Remote] = None

  /** Number of live keys of all families. */
  def keyCount: Long

  /** Number of live keys of one family. */
  def keyCount(family: Int): Long

  /** Bytes of the live records. */
  def liveBytes: Long
}

object BinState {

  /** The holding does not have the bin. That never means that the bin is empty (I8). */
  case object Absent extends BinState {
    override def isPresent: Boolean = false
    override def here: Option[BinLog] = None
    override def keyCount: Long = 0L
    override def keyCount(family: Int): Long = 0L
    override def liveBytes: Long = 0L
  }

  /** All records of the bin are in `log`. */
  final case class Local(log: BinLog) extends BinState {
    override def isPresent: Boolean = true
    override def here: Option[BinLog] = Some(log)
    override def keyCount: Long = log.keyCount.toLong
    override def keyCount(family: Int): Long = log.keyCount(family).toLong
    override def liveBytes: Long = log.liveBytes
  }

  /** The bin is incomplete: some of its records are in `log`, and `remote` says what is elsewhere.
    * Of one family it is not known how many keys are elsewhere: those here are counted.
    */
  final case class Partial(log: BinLog, remote: Remote) extends BinState {
    override def isPresent: Boolean = true
    override def here: Option[BinLog] = Some(log)
    override def elsewhere: Option[Remote] = Some(remote)
    override def keyCount: Long = log.keyCount + remote.keysElsewhere
    override def keyCount(family: Int): Long = log.keyCount(family).toLong
    override def liveBytes: Long = log.liveBytes + remote.bytesElsewhere
  }
}
