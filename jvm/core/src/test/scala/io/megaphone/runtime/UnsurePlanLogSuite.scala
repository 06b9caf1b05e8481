// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException

import scala.util.Try

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.{History, LogRecord, PlanLog, Verdict}
import io.megaphone.errors.StepNotSealedException
import io.megaphone.format.ExecutorAddress
import io.megaphone.plan.{Group, Move, Operator, Plan, Step, TransferMode}
import io.megaphone.protocol.PlanStatus
import io.megaphone.testkit.MemoryRecords
import io.megaphone.view.PlanRow

/** Appends that are durable and unconfirmed, other runs that append in between, and trimmings that
  * meet both.
  */
class UnsurePlanLogSuite extends AnyFunSuite {
  private val group = Group(Vector(Operator(0, "aggregate", Vector("default"))), 2)
  private val view = ClusterView(Vector("a", "b").map(ExecutorAddress(_, "host", 1)))

  private class Log extends MemoryRecords {
    var unsureAppends, failingReads = 0 // the next ones
    var afterCreate: PartialFunction[LogRecord, Unit] = PartialFunction.empty

    override def create(number: Long, record: LogRecord): Boolean = {
      val isCreated = super.create(number, record)
      if (isCreated && afterCreate.isDefinedAt(record)) {
        val once = afterCreate
        afterCreate = PartialFunction.empty
        once(record)
      }
      if (isCreated && unsureAppends > 0) { unsureAppends -= 1; throw new IOException("lost") }
      isCreated
    }

    override def read(numbers: Vector[Long]): Vector[Option[LogRecord]] =
      if (failingReads > 0) { failingReads -= 1; throw new IOException("no connection") }
      else super.read(numbers)

    def history: History = new PlanLog(this).read()
  }

  private final class Query(val log: Log, id: String, first: Long, trimRecords: Int = 100) {
    var warnings = 0
    val run = new QueryRun(id, "root", new PlanLog(log), FaultPoints.Off, _ => warnings += 1)
    run.start(
      QueryRun.FirstBatch(first, Vector(group), Map.empty, 2),
      () => Some(first - 1),
      8,
      QueryRun.Settings(trimRecords = trimRecords),
      _ => (),
      _ => fail("no state is read")
    )

    def plan(batch: Long, isOwn: Boolean = true): BatchPlan =
      run.plan(batch, Vector(group), isOwn, Map.empty, view)
    def submit(id: String, moves: Move*): Plan = {
      val steps = Map(0L -> moves.toVector.map(m => Step(Vector(m), 2)))
      run.submit(_ => Plan(id, steps, "fluid", TransferMode.Direct))
    }
    def row(id: String): PlanRow = PlanRow.of(run.snapshot.get, Some(-1L)).find(_.id == id).get
  }

  private def reported(call: => Any): String = intercept[StepNotSealedException](call).getMessage

  /** A query whose user is not told that plan "one" was cancelled, which it was. */
  private def cancelledUnsure(log: Log): Query = {
    val q = new Query(log, "r", 0, trimRecords = 3)
    q.plan(0)
    q.submit("one", Move(0, 1), Move(2, 1), Move(4, 1))
    q.plan(1)
    q.submit("two", Move(6, 1))
    log.unsureAppends = 1
    log.failingReads = 1
    assert(reported(q.run.cancel("one")).contains("It is not known"))
    assert(log.all.last == LogRecord.Cancelled("one"))
    log.failingReads = 1 // the look at its number, as the next batch is planned
    q
  }

  test("a plan whose cancellation is found late stays cancelled, also if the log is trimmed then") {
    val log = new Log
    val q = cancelledUnsure(log)
    log.unsureAppends = 1
    q.plan(2)
    assert(q.row("one").status == PlanStatus.Cancelled)
    (3L to 12L).foreach(q.plan(_))
    assert(q.row("one").stepsDone == 0 && log.history.end("one").isDefined)
    assert(log.all.exists(_.isInstanceOf[LogRecord.Trimmed]), "nothing was trimmed")
  }

  test("a trimming that was not confirmed is not offered again after a record was found late") {
    val log = new Log
    val q = cancelledUnsure(log)
    log.failingReads = 3 // the look of the batch, and both of the trimming
    q.plan(2, isOwn = false) // a step would clear the doubt
    (3L to 5L).foreach(q.plan(_, isOwn = false))
    assert(log.history.end("one").isDefined && q.row("one").status == PlanStatus.Cancelled)
  }

  test("a plan that is found late stays, also if the log is trimmed then") {
    val log = new Log
    val q = new Query(log, "r", 0, trimRecords = 3)
    q.plan(0)
    q.submit("one", Move(0, 1))
    q.plan(1)
    q.submit("two", Move(2, 1))
    log.unsureAppends = 1
    log.failingReads = 1
    reported(q.submit("three", Move(4, 1)))
    log.failingReads = 1
    (2L to 4L).foreach(q.plan(_))
    assert(log.history.plan("three").isDefined)
  }

  test("who was passed between an append and its look is told that the record may count") {
    val log = new Log
    val old = new Query(log, "old", 0)
    old.plan(0)
    log.afterCreate = { case _: LogRecord.Submitted => new Query(log, "new", 1); () }
    val told = reported(old.submit("one", Move(0, 1)))
    assert(told.contains("counts only if that run has read it"))
    assert(log.history.open.map(_.id) == Vector("one"))
  }

  test("a seal that was passed is not said to be missing") {
    val log = new Log
    val old = new Query(log, "old", 0)
    old.plan(0)
    old.submit("one", Move(0, 1))
    old.plan(1)
    log.afterCreate = { case _: LogRecord.Sealed => new Query(log, "new", 2); () }
    val told = reported(old.plan(2))
    assert(told.startsWith("Batch 2 cannot go on") && !told.contains("not in the plan log"))
    assert(log.history.sealAt(2).isDefined)
  }

  test("a batch whose seal is not known to be written gets no tables when it is asked for again") {
    val log = new Log
    val q = new Query(log, "r", 0)
    q.plan(0)
    q.submit("one", Move(0, 1))
    q.plan(1)
    log.unsureAppends = 1
    log.failingReads = 2
    reported(q.plan(2))
    reported(q.plan(2, isOwn = false))
    assert(q.plan(2, isOwn = false).tables(0).after == log.history.tableAt(0, 2), "it is found")
  }

  test("a trimming that cannot be written is offered again, as the same record") {
    val log = new Log {
      override def create(number: Long, record: LogRecord): Boolean = record match {
        case _: LogRecord.Trimmed => throw new IOException("read-only")
        case _ => super.create(number, record)
      }
    }
    val q = new Query(log, "r", 0, trimRecords = 1)
    q.plan(0)
    q.submit("one", Move(0, 1)) // its seal is left out of what is made after many batches
    (1L to 200L).foreach(q.plan(_))
    assert(q.run.snapshot.get.unconfirmed.size == 1)
  }

  test("nothing is deleted if another record took the place of the one that stands for it") {
    val log = new Log
    val q = new Query(log, "old", 0, trimRecords = 3)
    q.plan(0)
    q.submit("one", Move(0, 1))
    q.plan(1)
    q.submit("two", Move(2, 1))
    val started = log.history.last.get.copy(run = "new", firstBatch = 2)
    // A store that cannot refuse a taken name: the other run looked before, and writes after.
    log.afterCreate = { case _: LogRecord.Trimmed => log.replace(log.nextNumber - 1, started) }
    q.plan(2).obsoleteRecords.foreach(new PlanLog(log).deleteBefore(_))
    assert(log.history.last.contains(started) && log.history.first.exists(_.run == "old"))
  }

  test("a record that cannot be deleted does not keep the others") {
    val log = new Log {
      override def delete(number: Long): Unit =
        if (number == 0) throw new IOException("held") else super.delete(number)
    }
    val q = new Query(log, "r", 0)
    for (batch <- 0L to 9L) {
      (1 to 60).foreach { i => q.submit(s"p$batch-$i", Move(0, 1)); q.run.cancel(s"p$batch-$i") }
      q.plan(batch)
        .obsoleteRecords
        .foreach(n => assert(Try(new PlanLog(log).deleteBefore(n)).isFailure))
    }
    log.reads = 0
    log.history
    assert(log.reads <= 200)
  }

  test("a log is read while the records that one stands for are deleted") {
    val log = new Log {
      override def read(numbers: Vector[Long]): Vector[Option[LogRecord]] = {
        this.numbers().filter(_ < 100).headOption.foreach(delete)
        super.read(numbers)
      }
    }
    val q = new Query(log, "r", 0)
    (1 to 49).foreach { i => q.submit(s"p$i", Move(0, 1)); q.run.cancel(s"p$i") }
    q.submit("last", Move(0, 1))
    q.plan(0)
    assert(log.all.exists(_.isInstanceOf[LogRecord.Trimmed]))
    log.lists = 0
    assert(log.history.plan("last").isDefined && log.lists <= 3)
  }

  test("a plan whose step was taken back and restored has a true reason, or none") {
    val log = new Log
    val q = new Query(log, "r", 0)
    q.plan(0)
    q.submit("one", Move(0, 1))
    q.submit("two", Move(2, 1), Move(4, 1))
    q.plan(1)
    q.plan(2)
    for (run <- Seq("s", "t", "u")) new Query(log, run, 2)
    assert(log.history.end("one").isDefined)
    val restoring =
      log.history.last.get.copy(run = "v", firstBatch = 3, verdict = Verdict.Restores)
    new PlanLog(log).append(log.nextNumber, restoring)
    val again = new Query(log, "w", 4)
    again.plan(4)
    assert(again.row("one").status == PlanStatus.Done && again.row("one").reason.isEmpty)
    assert(again.row("two").status == PlanStatus.Submitted || again.row("two").reason.isEmpty)
  }
}
