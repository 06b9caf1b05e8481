// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import java.io.IOException

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.{DamagedFileException, PlanLogMismatchException}
import io.megaphone.plan.{
  Group, Move, Operator, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode
}
import io.megaphone.testkit.MemoryRecords

/** The plan log as numbered files, some of which are trimmed away. */
class PlanLogSuite extends AnyFunSuite {
  import LogRecord._

  private val first = RoutingTable.roundRobin(8, 2)
  private val groups = Vector(Group(Vector(Operator(0, "aggregate", Vector("default"))), 2))
  private def started(batch: Long, run: String = "r") =
    Started(run, batch, 2, 8, groups, Map(0L -> first))
  private def planOf(id: String, bin: Int) =
    Plan(id, Map(0L -> Vector(Step(Vector(Move(bin, 1)), 2))), "fluid", TransferMode.Direct)
  private def sealing(batch: Long, id: String, bin: Int) = {
    val moves = Vector(Move(bin, 1))
    Sealed(
      "r",
      batch,
      Vector(SealedStep(StepId(id, 0, 0), moves)),
      Map(0L -> first.moved(moves, batch, 2))
    )
  }

  private final class Log(val files: MemoryRecords = new MemoryRecords) {
    val log = new PlanLog(files)
    def add(records: LogRecord*): this.type = {
      records.foreach(r => assert(log.append(files.nextNumber, r) == AppendOutcome.Appended))
      this
    }
    def trim(batch: Long): this.type = add(Trimmed("r", log.read().trimmed(batch)))
    def next: Long = files.nextNumber
  }

  private def busy: Log = new Log().add(
    started(0),
    Submitted(planOf("a", 0)),
    sealing(2, "a", 0),
    Submitted(planOf("b", 2)),
    sealing(5, "b", 2),
    Submitted(planOf("c", 4))
  )

  test("readers of one log read all of it once, and one record each after that") {
    val known = new KnownPlanLog
    val log = busy
    def reads(of: Log): Long = {
      of.files.reads = 0
      assert(known.read(of.files) == of.log.read())
      of.files.reads - of.next // those of the comparison
    }
    assert(reads(log) == 1 + 6)
    assert(reads(log) == 1)
    log.add(sealing(8, "c", 4))
    assert(reads(log) == 1 + 7, "it has grown")
    assert(reads(log) == 1)
  }

  test("a log is not taken for one that was in its folder before") {
    val known = new KnownPlanLog
    val (before, now) = (new Log().add(started(0, "r1")), new Log().add(started(0, "r2")))
    val runs = Seq(before, now, before).map(log => known.read(log.files).last.map(_.run))
    assert(runs == Seq(Some("r1"), Some("r2"), Some("r1")))
    val empty = new Log
    assert(known.read(empty.files).isEmpty)
    assert(known.read(empty.add(started(0, "r3")).files).last.exists(_.run == "r3"))
  }

  test("a log that grows while it is read is not taken for what it was") {
    val known = new KnownPlanLog
    val log = new Log(new MemoryRecords {
      private var isFirst = true
      override def numbers(): Vector[Long] = {
        val listed = super.numbers()
        if (isFirst && nextNumber == 1) { isFirst = false; create(1, Submitted(planOf("a", 0))) }
        listed
      }
    })
    log.files.create(0, started(0))
    assert(known.read(log.files).plans.size == 1)
    log.files.truncate(1)
    assert(known.read(log.files).plans.isEmpty)
  }

  test("a log says the same after it was trimmed, of the batches that may still be asked for") {
    for (batch <- 0L to 9L) {
      val log = busy
      val before = log.log.read()
      val after = log.trim(batch).log.read()
      assert((batch to 9L).forall(b => after.tableAt(0, b) == before.tableAt(0, b)))
      assert(after.open == before.open && after.first == before.first && after.last == before.last)
      assert(after.nextNumber == log.next && after.untrimmed == 0)
    }
  }

  test("the table of a batch that was trimmed away is an error, and no other table") {
    val told = intercept[PlanLogMismatchException](busy.trim(4).log.read().tableAt(0, 3)).getMessage
    assert(told.contains("the table of batch 3 is asked for") && told.contains("from batch 4 on"))
  }

  test("a reader begins at the newest record that stands for those before it, deleted or not") {
    val log = busy.trim(4).add(started(6))
    val told = log.log.read()
    log.log.deleteBefore(6)
    assert(log.files.numbers().sorted == Vector(6L, 7L))
    log.files.reads = 0
    assert(log.log.read() == told && log.files.reads == 2)
  }

  test("a deletion that stops half way is finished by the next, and changes nothing") {
    var isBroken = true
    val files = new MemoryRecords {
      override def delete(number: Long): Unit =
        if (isBroken && number == 3) throw new IOException("no") else super.delete(number)
    }
    val log = new Log(files)
    busy.files.all.foreach(log.add(_))
    val told = log.trim(4).log.read()
    assertThrows[IOException](log.log.deleteBefore(6))
    assert(files.numbers() == Vector(3L, 6L) && log.log.read() == told)
    isBroken = false
    log.log.deleteBefore(6)
    assert(files.numbers() == Vector(6L) && log.log.read() == told)
  }

  test("a log that is trimmed while it is read is read again") {
    val files = new MemoryRecords {
      override def numbers(): Vector[Long] = {
        val listed = super.numbers()
        if (lists == 1) {
          create(6, Trimmed("r", new PlanLog(this).read().trimmed(4)))
          listed.foreach(delete)
        }
        listed
      }
    }
    busy.files.all.zipWithIndex.foreach { case (r, n) => files.replace(n.toLong, r) }
    assert(new PlanLog(files).read().nextNumber == 7 && files.numbers() == Vector(6L))
  }

  test("a record that is missing is damage, before and after a trimming") {
    def damage(log: Log) = intercept[DamagedFileException](log.log.read()).getMessage
    val log = busy
    log.files.delete(2)
    assert(damage(log).contains("expected record 2"))
    val trimmed = busy.trim(4).add(started(6), started(7), started(8))
    trimmed.log.deleteBefore(6)
    trimmed.files.delete(8)
    assert(damage(trimmed).contains("expected record 8"))
    val headless = busy
    headless.files.delete(0)
    assert(damage(headless).contains("expected record 0"))
  }

  test("H22: a run that was paused since before a trimming finds out at its append") {
    for (own <- 0L to 5L) {
      val log = busy.trim(4)
      log.log.deleteBefore(6)
      val outcome = log.log.append(own, sealing(9, "c", 4))
      assert(outcome == AppendOutcome.Overtaken, s"at record $own")
      assert(log.log.read().sealAt(9).isEmpty, "the record that it left does not count")
      assert(log.log.lookAt(own, Seq(sealing(9, "c", 4))).contains(AppendOutcome.Overtaken))
    }
  }

  test("an append finds what stands at its number, and a number after a trimming is free") {
    val log = busy.trim(4)
    log.log.deleteBefore(6)
    assert(log.log.append(6, started(9)).isInstanceOf[AppendOutcome.Taken])
    assert(log.log.lookAt(7, Nil).isEmpty)
    assert(log.log.append(7, started(9)) == AppendOutcome.Appended)
    assert(log.log.append(7, started(9)) == AppendOutcome.Appended, "it is there already")
  }

  test("H22: a record that one paused run left does not deceive another one") {
    val log = busy.trim(4)
    log.log.deleteBefore(6)
    assert(log.log.append(2, started(9, "a")) == AppendOutcome.Overtaken)
    assert(log.log.append(3, started(9, "b")) == AppendOutcome.Overtaken)
    assert(log.log.append(5, started(9, "c")) == AppendOutcome.Overtaken)
    assert(log.log.read().last.exists(_.run == "r"))
  }

  test("plans that are over are kept up to a hundred, and those that are open for ever") {
    val ended = (1 to 300).flatMap(i => Seq(Submitted(planOf(s"p$i", 0)), Cancelled(s"p$i")))
    val log = new Log().add(started(0), Submitted(planOf("open", 4))).add(ended: _*)
    val plans = log.trim(50).log.read().plans.keys.toVector
    assert(plans == "open" +: (201 to 300).map(i => s"p$i"))
  }

  test("plans that moved something since are kept with all of their steps, to be voided or not") {
    val moved = Plan(
      "p",
      Map(0L -> Vector(Step(Vector(Move(0, 1)), 2), Step(Vector(Move(2, 1)), 2))),
      "fluid",
      TransferMode.Direct
    )
    def sealOf(batch: Long, i: Int) = sealing(batch, "p", i * 2)
      .copy(steps = Vector(SealedStep(StepId("p", 0, i), moved.steps(0)(i).moves)))
    val log = new Log().add(started(0), Submitted(moved), sealOf(3, 0), sealOf(9, 1)).trim(8)
    assert(log.log.read().taken("p").map(_._1) == Vector(3L, 9L) && log.log.read().open.isEmpty)
    assert(log.add(started(8)).log.read().open == Vector(moved))
  }

  test("a seal that is taken back is void by its start record, and its plan ends with the reason") {
    val log = busy.add(started(5), started(5))
    assert(log.log.read().starts.retriesOf(5) == 2)
    val back = log.add(started(5).copy(verdict = Verdict.TakesBack("never committed"))).log.read()
    assert(back.tableAt(0, 5) == back.tableAt(0, 4) && back.takenBack.exists(_.batch == 5))
    assert(back.end("b") == Some(PlanEnd(Some("never committed"))) && back.taken("b").isEmpty)
    assert(back.starts.retriesOf(5) == 0 && back.open.map(_.id) == Vector("c"))
  }

  test("H23: a seal that was taken back is restored with its steps, before or after a trimming") {
    for (isTrimmed <- Seq(false, true)) {
      val log = busy.add(started(5).copy(verdict = Verdict.TakesBack("never committed")))
      if (isTrimmed) log.trim(3)
      val again = log.add(started(6, "s").copy(verdict = Verdict.Restores)).log.read()
      assert(again.tableAt(0, 6).workerOf(2) == 1 && again.takenBack.isEmpty)
      assert(again.taken("b").map(_._1) == Vector(5L))
    }
  }

  test("a seal that was taken back is forgotten once its batch is known to have run without it") {
    val log = busy.add(started(5).copy(verdict = Verdict.TakesBack("never committed")))
    assert(log.add(started(5)).log.read().takenBack.isDefined, "it is not committed yet")
    assert(log.add(started(6)).log.read().takenBack.isEmpty)
  }
}
