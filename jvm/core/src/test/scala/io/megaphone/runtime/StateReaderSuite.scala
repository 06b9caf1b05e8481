// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.{AtomicOutput, Recovery, StateFiles}
import io.megaphone.checkpoint.planlog.{History, LogRecord, Verdict}
import io.megaphone.errors.PlanLogMismatchException
import io.megaphone.format.{Compression, Compressions, FileName, FileSource, StoreId, VersionIds}
import io.megaphone.plan.{
  Group, Move, Operator, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode
}
import io.megaphone.state.Registry

/** Readers find each bin where its batch left it. The batch is batch 1, in which bin 0 moves to
  * worker 1, if its step is carried out.
  */
class StateReaderSuite extends AnyFunSuite with SmallStore {
  private val store = StoreId(0, "default")
  private val moves = Vector(Move(0, 1))
  private val plan = Plan("p", Map(0L -> Vector(Step(moves, 2))), "fluid", TransferMode.Direct)
  private def started(batch: Long, verdict: Verdict = Verdict.None) = {
    val groups = Vector(Group(Vector(Operator(0, "dedupe", Vector("default"))), 2))
    LogRecord.Started("run", batch, 2, 4, groups, Map(0L -> before), verdict)
  }
  private val withStep = Vector(
    started(0),
    LogRecord.Submitted(plan),
    LogRecord.Sealed("run", 1, Vector(SealedStep(StepId("p", 0, 0), moves)), Map(0L -> after))
  )
  private val takenBack = withStep ++ Seq.fill(2)(started(1)) :+
    started(1, Verdict.TakesBack("batch 1 was never committed"))

  /** The files of versions 1 and 2: every bin has its version as the value. */
  private def written(table: RoutingTable): Store = {
    val files = new Store
    val registry = new Registry
    batch(files, registry, 0, attempts = 1, before, before, 1)
    batch(files, registry, 1, attempts = 3, before, table, 2)
    files
  }

  private def read(files: Store, records: Seq[LogRecord], version: Long): Map[Int, Option[Byte]] =
    (0 until 2).flatMap { partition =>
      val reader = new StateReader(History.of(records), store, partition, files.recovery)
      val ids = (_: Long) => VersionIds.Fixed
      reader.check(version, ids)
      assert(reader.changes(version, ids).size == reader.bins.size)
      val holding = reader.load(version, ids)
      reader.bins.map(bin => bin -> get(holding.log(bin)))
    }.toMap

  private def allOf(version: Int) = (0 until 4).map(_ -> Option(version.toByte)).toMap

  test("a bin is read from the worker that had it at the version") {
    val files = written(after)
    for (version <- 1 to 2) assert(read(files, withStep, version.toLong) == allOf(version))
  }

  test("a step that was taken back is believed to be so if its batch ran without it") {
    val files = written(before)
    for (version <- 1 to 2) assert(read(files, takenBack, version.toLong) == allOf(version))
  }

  test("a step that was taken back is seen to be in force if its batch ran with it") {
    val files = written(after)
    for (version <- 1 to 2) assert(read(files, takenBack, version.toLong) == allOf(version))
  }

  test("the changes of images take one look at the state before, however many bins have one") {
    val (files, registry) = (new Store, new Registry)
    batch(files, registry, 0, attempts = 1, before, before, 1)
    val turn = files.turn(1, before, before)
    val lease = files.lease(registry, 0, 3)
    files.open(registry, lease, turn)
    Seq(0, 2).foreach(put(lease.holding, _, 2))
    files.commit(lease, turn, isWhole = true)
    var opened = 0
    val counting = new StateFiles {
      override def create(file: FileName): AtomicOutput = files.files.create(file)
      override def open(file: FileName): FileSource = { opened += 1; files.files.open(file) }
    }
    val recovery = new Recovery(counting, Compressions(Compression.None))
    val reader = new StateReader(History.of(Seq(started(0))), store, partition = 0, recovery)
    assert(reader.changes(2, _ => VersionIds.Fixed).size == 2)
    assert(opened == 2, "the file of each of the two versions")
  }

  test("a plan log without the step is refused if the batch ran with it") {
    intercept[PlanLogMismatchException](read(written(after), takenBack.take(2), 2))
  }
}
