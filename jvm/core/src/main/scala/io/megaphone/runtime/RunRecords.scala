// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.megaphone.checkpoint.planlog.{AppendOutcome, LogRecord, PlanLog, Verdict}
import io.megaphone.errors.{PlanRefusedException, StepNotSealedException}
import io.megaphone.protocol.Protocol

/** The protocol's state of one run, and the run's records in the plan log.
  *
  *   1. `feed` gives the protocol an event. It appends each record that the protocol asks for,
  *      feeds the outcome, and returns the other commands. ''Dies before an append:'' nothing
  *      happened. ''Dies after it:'' the next run reads the record.
  *   1. An append whose outcome is not known is looked at once more. If that fails too, the record
  *      is unconfirmed: it may be in the log or not.
  *   1. `readUnconfirmed` looks at such records before anything is appended behind them.
  *
  * Threads: one at a time, as of its [[QueryRun]]; `state` may be read by any.
  */
private[runtime] final class RunRecords(
    run: String,
    planLog: PlanLog,
    faults: FaultPoints,
    warn: String => Unit
) {
  @volatile private var begun: Option[Protocol.State] = None

  /** The protocol's state; None before the run begins. */
  def state: Option[Protocol.State] = begun

  /** The same. Throws PlanRefusedException before the run begins. */
  def current: Protocol.State = begun.getOrElse(throw PlanRefusedException.notStarted)

  def begin(first: Protocol.State): Unit = begun = Some(first)

  /** The run could not begin. */
  def giveUp(): Unit = begun = None

  /** Feeds an event. Throws StepNotSealedException if the protocol commands to fail. */
  def confirm(event: Protocol.Event): Unit = feed(event).foreach {
    case Protocol.Fail(reason) => throw new StepNotSealedException(reason)
    case _ => ()
  }

  /** Feeds one event, appends what is asked for, and returns the other commands. */
  def feed(event: Protocol.Event): Vector[Protocol.Command] = {
    val (next, commands) = Protocol(current, event)
    begun = Some(next)
    commands.flatMap {
      case Protocol.Append(record) => note(record); feed(append(record))
      case other => Vector(other)
    }
  }

  private def append(record: LogRecord): Protocol.Event = {
    val number = current.history.nextNumber
    val isSeal = record.isInstanceOf[LogRecord.Sealed]
    if (isSeal) faults.at(FaultPoints.DriverSealing)
    val outcome = planLog.append(number, record) match {
      case AppendOutcome.Unconfirmed(cause) =>
        warn(s"Writing record $number of query $run's plan log was not confirmed: $cause")
        lookAt(number, Seq(record))
      case known => Some(known)
    }
    outcome match {
      case Some(AppendOutcome.Appended) =>
        if (isSeal) faults.at(FaultPoints.DriverSealed)
        Protocol.Appended(record)
      case Some(AppendOutcome.Taken(found)) => Protocol.NumberTaken(record, found)
      case Some(AppendOutcome.Overtaken) => Protocol.Overtaken(record)
      case _ => Protocol.NotConfirmed(record)
    }
  }

  /** Reads the numbers that own records may stand at whose append was not confirmed. */
  @tailrec
  def readUnconfirmed(): Unit = if (current.unconfirmed.nonEmpty)
    lookAt(current.history.nextNumber, current.unconfirmed) match {
      case Some(AppendOutcome.Taken(found)) if current.unconfirmed.contains(found) =>
        warn(
          s"A record of query $run that was reported as not confirmed is in its plan log: $found"
        )
        feed(Protocol.Confirmed(found))
        readUnconfirmed()
      case Some(_) => feed(Protocol.Refuted); ()
      case None => ()
    }

  private def lookAt(number: Long, own: Seq[LogRecord]): Option[AppendOutcome] =
    try planLog.lookAt(number, own)
    catch {
      case NonFatal(e) =>
        warn(s"Record $number of query $run's plan log could not be read: $e")
        None
    }

  private def note(record: LogRecord): Unit = record match {
    case LogRecord.Started(_, _, _, _, _, _, Verdict.TakesBack(reason)) => warn(reason)
    case LogRecord.Started(_, _, _, _, _, _, Verdict.Restores) =>
      warn("An older run had committed the step that the run before took back: it is in force.")
    case LogRecord.Cancelled(plan, Some(reason)) =>
      warn(s"Plan $plan of query $run has failed. $reason")
    case LogRecord.Sealed(_, _, steps, _, _) =>
      for (s <- steps; reason <- s.noRoom)
        warn(s"Step ${s.step} of query $run goes on without some of its moves. $reason")
    case _ => ()
  }
}
