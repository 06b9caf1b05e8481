// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

/** The plan log as files: numbered records, none of them ever overwritten. */
trait PlanLogFiles {

  /** All records that count. Throws DamagedFileException for a damaged record or a gap. */
  def read(): History

  /** Appends a record at a number. Never throws. */
  def append(number: Long, record: LogRecord): AppendOutcome

  /** The record at a number, or None if there is none. Throws if that cannot be known. */
  def recordAt(number: Long): Option[LogRecord]
}

/** What came of an append. */
sealed trait AppendOutcome

object AppendOutcome {

  /** The record is in the log. */
  case object Appended extends AppendOutcome

  /** Another record stands at the number. */
  final case class Taken(found: LogRecord) extends AppendOutcome

  /** It is not known whether the record is in the log. */
  final case class Unconfirmed(cause: Throwable) extends AppendOutcome
}
