// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.{LogRecord, LogRecordFormat, PlanLog}
import io.megaphone.format.ExecutorAddress
import io.megaphone.plan.{Group, Move, Operator, Plan, Step, TransferMode}
import io.megaphone.testkit.{Allocated, MemoryRecords}

/** What a plan log of many years costs: calls, bytes and records, no seconds. */
class LongPlanLogSuite extends AnyFunSuite {
  private val group = Group(Vector(Operator(0, "aggregate", Vector("default"))), 2)
  private val view = ClusterView(Vector("a", "b").map(ExecutorAddress(_, "host", 1)))

  private final class Query(files: MemoryRecords, run: String, first: Long) {
    private val log = new PlanLog(files)
    private val query = new QueryRun(run, "root", log, FaultPoints.Off, _ => ())
    query.start(
      QueryRun.FirstBatch(first, Vector(group), Map.empty, 2),
      () => Some(first - 1),
      8,
      QueryRun.Settings(),
      _ => (),
      _ => fail("no state is read")
    )

    def plan(batch: Long): BatchPlan = {
      val planned = query.plan(batch, Vector(group), isOwn = true, Map.empty, view)
      planned.obsoleteRecords.foreach(log.deleteBefore)
      planned
    }
    def submit(id: String, move: Move): Unit = {
      val steps = Map(0L -> Vector(Step(Vector(move), 2)))
      query.submit(_ => Plan(id, steps, "fluid", TransferMode.Direct))
      ()
    }

    /** Bytes of the history in the driver's memory, as the record that stands for it has them. */
    def historyBytes: Int =
      LogRecordFormat.encode(LogRecord.Trimmed(run, query.snapshot.get.history)).length
  }

  /** What one more start costs: records read, bytes read, records in the folder, bytes kept. */
  private def costOfStart(files: MemoryRecords, batch: Long): Vector[Long] = {
    files.reads = 0
    files.bytesRead = 0
    val query = new Query(files, s"r$batch", batch)
    Vector(files.reads, files.bytesRead, files.numbers().size.toLong, query.historyBytes.toLong)
  }

  test("the hundred thousandth run of one batch starts at the cost of the hundredth") {
    val files = new MemoryRecords
    def run(batch: Long): Unit = { new Query(files, s"r$batch", batch).plan(batch); () }
    (0L until 100).foreach(run)
    val early = costOfStart(files, 100)
    (101L until 100000).foreach(run)
    for ((now, before) <- costOfStart(files, 100000).zip(early)) assert(now <= before * 1.2)
    assert(files.deleted > 99000)
  }

  test("ten thousand plans cost a reader, the driver's memory and a batch what a thousand do") {
    val files = new MemoryRecords
    val query = new Query(files, "r", 0)
    query.plan(0)
    var batch = 0L
    def next(): BatchPlan = { batch += 1; query.plan(batch) }
    def runPlan(i: Int): Unit = {
      query.submit(s"p$i", Move(i % 8, (i / 8) % 2))
      assert((1 to 4).exists(_ => next().decision.sealedSteps.nonEmpty))
    }
    def bytesOfPlanning = Allocated.bytesOf((1 to 20).foreach(_ => next()))
    (1 to 1000).foreach(runPlan) // the code is compiled, and the log trimmed often
    def costs = {
      val kept = Vector(bytesOfPlanning, query.historyBytes.toLong, files.numbers().size.toLong)
      files.reads = 0
      files.bytesRead = 0
      assert(new PlanLog(files).read().last.isDefined && files.reads < 250)
      kept ++ Vector(files.reads, files.bytesRead)
    }
    val early = costs
    (1001 to 10000).foreach(runPlan)
    for ((now, before) <- costs.zip(early)) assert(now <= before * 1.5 + 50)
  }
}
