// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.megaphone.errors.DamagedFileException

/** The plan log: records with consecutive numbers, none of them ever overwritten.
  *
  *   1. A record is appended by an atomic creation that fails if its number is taken. Of two
  *      drivers that append the same number, one finds out.
  *   1. A [[LogRecord.Trimmed]] at number p is appended like any other record. It stands for all
  *      records before it. ''Dies before:'' nothing happened. ''Dies after:'' a reader begins at p.
  *   1. The records before p are deleted. ''Dies:'' the next trimming deletes the rest, and readers
  *      ignore them.
  *   1. A driver that was paused since before p may find the number that it takes for the next one
  *      free, for its record is deleted. It finds out as well: after each creation the folder is
  *      listed, and the newest record, which is never deleted, has a higher number. The record that
  *      it left is ignored: it lies before p.
  *
  * Threads: any; it has no state.
  */
class PlanLog(files: PlanLogFiles) {

  /** All that the log says. Lists the folder, and reads the records since the last one that stands
    * for those before it, and what is left of these. Throws DamagedFileException for a damaged
    * record or a gap.
    */
  def read(): History = read(PlanLog.TriesMax)

  /** @param tries
    *   how often a list may be out of date: another driver may trim at the same time
    */
  @tailrec
  private def read(tries: Int): History = {
    val numbers = files.numbers().sorted
    val last = numbers.drop(PlanLog.startOfLastRun(numbers))
    val records = files.read(last)
    val from = math.max(0, records.lastIndexWhere(_.exists(_.isInstanceOf[LogRecord.Trimmed])))
    val (current, known) = (last.drop(from), records.drop(from))
    known.indexWhere(_.isEmpty) match {
      case -1 => historyOf(current, known.flatten)
      case _ if tries > 1 => read(tries - 1)
      case gone => throw missing(current(gone))
    }
  }

  private def historyOf(numbers: Vector[Long], records: Vector[LogRecord]): History =
    records.headOption match {
      case None => History.Empty
      case Some(_: LogRecord.Trimmed) => History.of(numbers.head, records)
      case Some(_) if numbers.head == 0 => History.of(records)
      case Some(_) => throw missing(numbers.head - 1)
    }

  /** Appends a record at a number. If the record is there already, it is appended. Never throws. */
  def append(number: Long, record: LogRecord): AppendOutcome =
    try
      if (files.create(number, record))
        if (isPassed(number)) AppendOutcome.Overtaken else AppendOutcome.Appended
      else
        lookAt(number, Seq(record)) match {
          case Some(AppendOutcome.Taken(found)) if found == record => AppendOutcome.Appended
          case Some(outcome) => outcome
          case None => AppendOutcome.Unconfirmed(new IllegalStateException("the record has gone"))
        }
    catch { case NonFatal(e) => AppendOutcome.Unconfirmed(e) }

  /** What stands at a number: `Taken`; `Overtaken` if it is a record of this run that does not
    * count, or was trimmed away; None if the number is free. Throws if that cannot be known.
    *
    * @param own
    *   records of this run that may stand there
    */
  def lookAt(number: Long, own: Seq[LogRecord]): Option[AppendOutcome] =
    files.read(Vector(number)).head match {
      case Some(found) if !own.contains(found) => Some(AppendOutcome.Taken(found))
      case found =>
        if (isPassed(number)) Some(AppendOutcome.Overtaken) else found.map(AppendOutcome.Taken)
    }

  /** Whether another run has gone on from a number: a record counts at once only as the newest. */
  private def isPassed(number: Long): Boolean = files.numbers().exists(_ > number)

  /** Deletes the records before one that stands for them; does nothing if the record at that number
    * is another one. One that cannot be deleted stays, and the first failure is thrown at the end.
    */
  def deleteBefore(number: Long): Unit =
    files.read(Vector(number)).head match {
      case Some(_: LogRecord.Trimmed) =>
        val failures = files.numbers().filter(_ < number).flatMap { n =>
          try { files.delete(n); None }
          catch { case NonFatal(e) => Some(e) }
        }
        failures.headOption.foreach(throw _)
      case _ => ()
    }

  private def missing(number: Long) = new DamagedFileException(
    files.folder,
    None,
    s"record $number",
    "none of that number, and no later record that stands for it"
  )
}

object PlanLog {
  private val TriesMax = 10

  /** Where the last numbers without a gap begin. */
  private def startOfLastRun(sorted: Vector[Long]): Int =
    sorted.indices.reverseIterator.find(i => i == 0 || sorted(i - 1) != sorted(i) - 1).getOrElse(0)
}

/** What came of an append. */
sealed trait AppendOutcome

object AppendOutcome {

  /** The record is in the log. */
  case object Appended extends AppendOutcome

  /** Another record stands at the number. */
  final case class Taken(found: LogRecord) extends AppendOutcome

  /** Another run has gone on: records with higher numbers exist. The record counts if that run has
    * read it, and does not if that run has trimmed the log.
    */
  case object Overtaken extends AppendOutcome

  /** It is not known whether the record is in the log. */
  final case class Unconfirmed(cause: Throwable) extends AppendOutcome
}
