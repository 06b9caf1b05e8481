// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.FutureTask
import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.{LogRecord, PlanLog}
import io.megaphone.errors.{StepNotSealedException, UnsupportedQueryException}
import io.megaphone.format.StoreId
import io.megaphone.plan.{Group, Move, Operator, Plan, Step, StepId, TransferMode}
import io.megaphone.protocol.{PlanStatus, Protocol}
import io.megaphone.state.{Reached, ReplicaKey}
import io.megaphone.view.PlanRow

/** The driver's part of the runtime on a plan log whose file system is not to be trusted. */
class QueryRunSuite extends AnyFunSuite with SmallRun {
  test("a run is not shown before its start record is in the log") {
    val log = new Log
    val run = new QueryRun("r", "root", new PlanLog(log), FaultPoints.Off, _ => ())
    val first = QueryRun.FirstBatch(0, Vector(group), Map.empty, 2)
    var shown = Vector.empty[Boolean]
    def look(): Unit = shown :+= run.snapshot.isDefined
    log.beforeCreate = () => look()
    run.start(first, () => None, 8, QueryRun.Settings(), _ => look(), _ => fail("no state is read"))
    look()
    assert(shown == Vector(false, false, true))
  }

  test("a plan whose append is durable but not confirmed is accepted, once it is read back") {
    val q = begun
    q.log.isConfirmed = false
    q.submit("one", Move(0, 1))
    assert(plans(q) == Vector("one") && q.warnings.size == 1)
  }

  test("a plan that cannot be read back either is reported as unknown, and runs with a word") {
    val q = begun
    q.log.isConfirmed = false
    q.log.isReadable = false
    val told = intercept[StepNotSealedException](q.submit("one", Move(0, 1))).getMessage
    assert(told.startsWith("It is not known whether the record is in the plan log"))
    assert(plans(q).isEmpty)
    q.log.isConfirmed = true
    q.log.isReadable = true
    q.plan(1)
    assert(plans(q) == Vector("one") && q.warnings.last.contains("is in its plan log"))
    q.submit("two", Move(2, 1))
    assert(
      (2L to 4L).map(q.plan(_).decision.sealedSteps.map(_.id.planId)).flatten == Seq("one", "two")
    )
  }

  test("a plan that was never written leaves its number to the next record") {
    val q = begun
    q.log.isDurable = false
    q.log.isConfirmed = false
    intercept[StepNotSealedException](q.submit("one", Move(0, 1)))
    q.log.isDurable = true
    q.log.isConfirmed = true
    q.submit("two", Move(2, 1))
    assert(plans(q) == Vector("two") && q.run.snapshot.get.unconfirmed.isEmpty)
  }

  test("a seal whose number an own unconfirmed record has is appended at the next one") {
    val q = begun
    q.submit("one", Move(0, 1))
    q.plan(1)
    q.log.isConfirmed = false
    q.log.isReadable = false
    intercept[StepNotSealedException](q.run.cancel("one"))
    q.log.isConfirmed = true
    q.log.isReadable = true
    // The record cannot be read as the batch is planned, but stands where the seal should.
    q.log.isReadLate = true
    val planned = q.plan(2)
    assert(planned.decision.sealedSteps.map(_.id.planId) == Vector("one"))
    assert(q.log.all.takeRight(2).head == LogRecord.Cancelled("one"))
  }

  test("a seal that is durable but not confirmed lets the batch go on") {
    val q = begun
    q.submit("one", Move(0, 1))
    q.plan(1)
    q.log.isConfirmed = false
    assert(q.plan(2).tables(0).after.workerOf(0) == 1)
  }

  test("a seal that is not known to be written fails the batch, with the reason") {
    val q = begun
    q.submit("one", Move(0, 1))
    q.plan(1)
    q.log.isConfirmed = false
    q.log.isReadable = false
    val told = intercept[StepNotSealedException](q.plan(2)).getMessage
    assert(
      told.startsWith("Batch 2 cannot go on with its step") && told.contains("was not confirmed")
    )
  }

  test("a run that finds its first batch committed does not start") {
    val told = intercept[StepNotSealedException](new Query().start(3, committed = Some(3)))
    assert(told.getMessage.contains("another run of the query is at work"))
  }

  test("a checkpoint with batches but no plan log is refused by name") {
    val refused = intercept[UnsupportedQueryException](new Query().start(3, committed = Some(2)))
    assert(refused.condition == "PLAN_LOG_MISSING")
    assert(
      refused.getMessage.endsWith(
        "if a new query says so, its session lacks the extension io.megaphone.MegaphoneExtensions."
      )
    )
  }

  test("a plan is refused by a run that was taken over, with the run that did so and its batch") {
    val q = begun
    new Query(q.log, id = "newer").start(1, committed = Some(0))
    val refused = intercept[StepNotSealedException](q.submit("one", Move(0, 1)))
    assert(
      refused.getMessage == "The plan log shows that run newer of the query has started from " +
        "batch 1 meanwhile, so this run must not go on."
    )
    assert(plans(q).isEmpty)
  }

  test("a batch with other operators than the run began with is refused by name") {
    val other = Group(Vector(Operator(3, "aggregate", Vector("default"))), 2)
    val view = ClusterView(executors)
    val refused = intercept[UnsupportedQueryException](
      begun.run.plan(1, Vector(other), isOwn = true, Map.empty, view)
    )
    assert(refused.condition == "OPERATORS_CHANGED" && refused.getMessage.contains("(3 aggregate)"))
  }

  test("orders name what lives: runs that have planned a batch, and the steps under way") {
    val q = begun
    assert(new Query(id = "unstarted").run.ordersFor("a").isEmpty)
    q.submit("one", Move(0, 1))
    q.plan(1)
    val orders = Orders.of(() => 8, () => q.run.ordersFor("a").toSeq)
    assert(orders.counter == 8 && orders.runs("r").settled == 1)
    assert(orders.runs("r").steps.map(_.toString) == Set("one.0.0"))
    assert(q.run.live.get.steps == orders.runs("r").steps && orders.runs("r").sealedSteps.isEmpty)
    q.plan(2)
    assert(q.run.live.get.sealedSteps.map(_.toString) == Set("one.0.0"))
    q.plan(3)
    assert(q.run.live.get.sealedSteps.isEmpty)
    assert(Protocol.Settings().stepsPerBatch == 1)
  }

  test("no orders lack a step with its replicas, however the batch is planned meanwhile") {
    val q = new Query().start(0)
    q.plan(0)
    val key = ReplicaKey.forStep(StoreId(0, "default").in("r"), 0, 1, _)
    var batch = 0L
    def next(): BatchPlan = { batch += 1; q.plan(batch) }
    @volatile var announced = Option.empty[StepId]
    @volatile var isOver = false
    val lacking = new AtomicInteger
    val asker = new FutureTask[Unit](
      () =>
        while (!isOver) for {
          step <- announced
          orders <- q.run.ordersFor("b")
          if announced.contains(step)
          if !orders.duties.exists(_.key == key(step)) && !orders.live.sealedSteps(step)
        } lacking.incrementAndGet(),
      ()
    )
    new Thread(asker).start()
    try
      for (i <- 0 until 300) {
        q.run.submit(_ => planOf(s"p$i", Move(0, 1)).copy(mode = TransferMode.Prepared))
        next()
        while (q.run.snapshot.get.announced.isEmpty) next()
        val step = q.run.snapshot.get.announced.head.id
        announced = Some(step)
        def isSealed = {
          q.run.reported(Report(executors(1), Held(0, 0, 0), Vector(Reached(key(step), batch))))
          next().decision.sealedSteps.nonEmpty
        }
        while (!isSealed) {}
        announced = None
        q.run.submit(_ => planOf(s"back$i", Move(0, 0)))
        while (next().decision.sealedSteps.isEmpty) {}
      }
    finally isOver = true
    asker.get()
    assert(lacking.get == 0)
  }

  /** A query that is started again and again under checkpoint format 2. */
  private def startAgain(log: Log, id: String, batch: Long, format: Int = 2): Query = {
    val q = new Query(log, id)
    q.start(batch, Some(batch - 1), format = format)
    q
  }

  private def sealedAt2: Log = {
    val q = begun
    q.submit("one", Move(0, 1))
    q.plan(1)
    q.plan(2)
    q.log
  }

  test("a step that two more runs have tried in vain is taken back, and the query goes on") {
    val log = sealedAt2
    for (id <- Seq("s", "t"))
      assert(startAgain(log, id, 2).plan(2, isOwn = false).tables(0).after.workerOf(0) == 1)
    val q = startAgain(log, "u", 2)
    assert(q.plan(2, isOwn = false).tables(0).after.workerOf(0) == 0)
    assert(q.warnings.head.startsWith("Batch 2 was started 3 times with step one.0.0"))
    val row = PlanRow.of(q.run.snapshot.get, Some(1L)).head
    assert(row.status == PlanStatus.Failed && row.reason.exists(_.contains("is not committed")))
    assert(q.plan(3).decision.sealedSteps.isEmpty, "it is not taken again")
  }

  test("a plan that cannot go on ends when its end is written; until then no batch fails for it") {
    val q = begun
    q.submit("misfit", Move(0, 7))
    q.log.isDurable = false
    q.log.isConfirmed = false
    assert(q.plan(1).decision.announced.isEmpty)
    q.log.isDurable = true
    q.log.isConfirmed = true
    q.plan(2)
    assert(q.log.all.collect { case c: LogRecord.Cancelled => c.planId } == Vector("misfit"))
  }

  test("a step that moves a bin again is announced once the step before it has taken effect") {
    val q = new Query().start(0)
    q.plan(0)
    val steps = Vector(Move(0, 1), Move(2, 1), Move(0, 0)).map(m => Step(Vector(m), 2))
    q.run.submit(_ => Plan("p", Map(0L -> steps), "as given", TransferMode.Prepared))
    assert(q.plan(1).decision.announced.map(_.id.index) == Vector(0, 1))
    val first = (2L to 40L).iterator.map(q.plan(_).decision).find(_.sealedSteps.nonEmpty).get
    assert(first.sealedSteps.map(_.id.index) == Vector(0))
    assert(first.announced.map(_.id.index) == Vector(1, 2))
    assert(first.announced.last.isOfFiles, "worker 1 has the bin only now")
  }

  test("a run that starts amid a plan prepares one step until it knows how large its state is") {
    val steps = Vector(0, 2, 4, 6).map(bin => Step(Vector(Move(bin, 1)), 2)) // all of worker 0
    val first = begun
    first.run.submit(_ => Plan("p", Map(0L -> steps), "fluid", TransferMode.Prepared))
    def restarted(id: String, windowBytes: Long) = {
      val settings = QueryRun.Settings(Protocol.Settings(windowBytes = windowBytes))
      new Query(first.log, id).start(1, Some(0), settings)
    }
    def announced(q: Query, batch: Long) = q.plan(batch, isOwn = false).decision.announced.size
    val q = restarted("s", 1000)
    assert(announced(q, 1) == 1)
    q.committed(1, on = 1, liveBytes = 8)
    assert(announced(q, 2) == 1, "that is the target's state")
    q.committed(0, on = 0, liveBytes = 4 * 500)
    assert(announced(q, 3) == 2)
    q.committed(0, on = 0, liveBytes = 4 * 250)
    assert(announced(q, 4) == 4)
    assert(announced(restarted("t", Long.MaxValue), 1) == 4, "there is no limit")
  }

  test("runs that start from other batches are no retries") {
    val log = sealedAt2
    startAgain(log, "s", 2)
    startAgain(log, "t", 3)
    startAgain(log, "u", 2)
    assert(startAgain(log, "v", 2).plan(2, isOwn = false).tables(0).after.workerOf(0) == 1)
  }

  test("under checkpoint format 1 a sealed step stays, for a late task would replace files") {
    val log = sealedAt2
    val runs = Seq("s", "t", "u", "v").map(startAgain(log, _, 2, format = 1))
    assert(runs.last.plan(2, isOwn = false).tables(0).after.workerOf(0) == 1)
  }
}
