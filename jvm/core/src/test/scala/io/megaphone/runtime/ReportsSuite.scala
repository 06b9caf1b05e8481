// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{StoreId, WorkerId}
import io.megaphone.pace.TransferRate
import io.megaphone.plan.{Move, Plan, Step, StepId, TransferMode}
import io.megaphone.protocol.PlanStatus
import io.megaphone.state.ReplicaKey
import io.megaphone.view.PlanRow

/** What the driver makes of reports: why a plan cannot go on, and how copies get on. */
class ReportsSuite extends AnyFunSuite with SmallRun {
  test("a plan says why a step cannot be prepared, as long as that is so") {
    val q = begun
    val steps = Vector(Move(0, 1), Move(1, 0)).map(m => Step(Vector(m), 2))
    q.run.submit(_ => Plan("p", Map(0L -> steps), "fluid", TransferMode.Prepared))
    q.plan(1)
    val keys = q.run.snapshot.get.announced.map { step =>
      val target = step.step.moves.head.target
      ReplicaKey.forStep(StoreId(0, "default").in("r"), 1 - target, target, step.id)
    }
    val (toOne, toZero) = (keys(0), keys(1))
    def report(executor: Int, failing: (ReplicaKey, String)*): Unit =
      q.run.reported(Report(executors(executor), Held(0, 0, 0), failing = failing.toVector))
    def row = PlanRow.of(q.run.snapshot.get, None).head
    report(0, toOne -> "denied")
    assert(row.reason.isEmpty, "the replica is the other executor's to prepare")
    report(1, toOne -> "denied")
    val why = "Executor b cannot prepare the bins that are to move to worker 1"
    assert(row.reason.contains(s"$why, and goes on trying: denied"))
    report(0, toZero -> "gone")
    assert(row.reason.exists(_.contains("worker 0, and goes on trying: gone")), "one of them")
    report(0)
    assert(row.status == PlanStatus.Preparing && row.reason.exists(_.endsWith("denied")))
    report(1)
    assert(row.reason.isEmpty)
    report(1, toOne -> "denied")
    q.plan(2, seen = executors.take(1))
    assert(row.reason.isEmpty, "the executor is gone")
  }

  test("a plan does not say any more what failed before its steps took effect") {
    val q = begun
    val plan =
      Plan("p", Map(0L -> Vector(Step(Vector(Move(0, 1)), 2))), "fluid", TransferMode.Prepared)
    q.run.submit(_ => plan)
    q.plan(1)
    val key =
      ReplicaKey.forStep(StoreId(0, "default").in("r"), 0, 1, q.run.snapshot.get.announced.head.id)
    q.run.reported(Report(executors(1), Held(0, 0, 0), failing = Vector(key -> "denied")))
    val sealedAt = Iterator.from(2).find(b => q.plan(b.toLong).decision.sealedSteps.nonEmpty)
    assert(sealedAt.contains(11) && PlanRow.of(q.run.snapshot.get, None).head.reason.isEmpty)
  }

  test("a plan says why the rest of its bins does not come, as long as that is so") {
    val q = begun
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "fluid", TransferMode.OnDemand))
    (1L to 2L).foreach(q.plan(_))
    surveyed(q, executors(0))
    q.plan(3)
    def report(run: String, workers: Int*) = {
      val waiting = workers.map(WorkerId(StoreId(0, "default").in(run), _) -> "is full.").toVector
      q.run.reported(Report(executors(1), Held(0, 0, 0), restsHeldUp = waiting))
    }
    def reason = PlanRow.of(q.run.snapshot.get, None).head.reason
    report("r")
    assert(reason.isEmpty)
    report("r", 0)
    assert(reason.isEmpty, "no step gave it bins")
    report("another", 1)
    assert(reason.isEmpty)
    report("r", 1)
    val why = "Worker 1 does not get the rest of its bins, because executor b is full."
    assert(reason.contains(why))
    report("r")
    assert(reason.isEmpty)
    report("r", 1)
    q.plan(4, seen = executors.take(1))
    assert(reason.isEmpty, "the executor is gone")
    q.plan(5)
    report("r", 1)
    q.committed(worker = 1, on = 1, batch = 5)
    q.plan(6)
    assert(reason.isEmpty, "all has come")
  }

  test("nobody asks for what a worker lacked whose executor is lost") {
    val q = new Query().start(0)
    q.plan(0, three)
    for (worker <- 0 to 1) q.committed(worker, on = worker)
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "fluid", TransferMode.OnDemand))
    (1L to 2L).foreach(q.plan(_, three))
    surveyed(q, executors(0))
    q.plan(3, three)
    q.committed(worker = 0, on = 0, batch = 3)
    q.run.committed(commitOf(1, executors(1), 100, 3).copy(binsIncomplete = 1))
    def lose() = q.run.see(ClusterView(Vector(three(0), three(2))))
    def live = q.run.live.get
    assert(live.steps.nonEmpty && live.takenAt.values.toSet == Set(3L))
    q.plan(4, three)
    assert(live.steps.nonEmpty)
    lose()
    assert(live.steps.isEmpty && live.takenAt.isEmpty, "it is recovered, whole")
    assert(q.plan(5, three.patch(1, Nil, 1)).assignments(0).incomplete == Set(0), "I13")
  }

  private def reportOf(copied: Vector[Copied], besideTasks: Long) = Report(
    executors(0),
    Held(0, 0, 0),
    copied = copied,
    besideTasks = Map("r" -> besideTasks)
  )

  test("copies for live steps are progress, up to what one attempt has come to") {
    val q = begun
    q.submit("p", Move(0, 1))
    val step = q.plan(1).decision.announced.head.id
    def report(of: StepId, bytes: Long) = {
      val key = ReplicaKey.forStep(StoreId(0, "default").in("r"), 0, 1, of)
      q.run.reported(
        reportOf(Vector(Copied(key, isSource = true, bytes)), 0)
      )
      q.run.snapshot.get.progressAt
    }
    assert(report(step.copy(planId = "other"), 1000) == -1)
    assert(report(step, 1000) == 1)
    q.plan(2)
    assert(report(step, 1000) == 1 && report(step, 999) == 1 && report(step, 1001) == 2)
  }

  test("the rate of copies follows what batches take while there are copies") {
    val rate = TransferRate.Settings(slowdown = 0.1)
    val q = new Query().start(0, settings = QueryRun.Settings(transferRate = rate))
    for (n <- 0L to 4L) { q.plan(n); q.run.batchEnded(n, 500) }
    q.submit("p", Move(0, 1))
    val step = q.plan(5).decision.announced.head.id
    def besideTasks = q.run.live.get.copyRate.besideTasks
    val first = besideTasks
    val key = ReplicaKey.forStep(StoreId(0, "default").in("r"), 0, 1, step)
    q.run.reported(reportOf(Vector(Copied(key, isSource = true, 1L << 40)), 1L << 40))
    q.run.batchEnded(5, 1000)
    assert(besideTasks < first, "twice as slow is too slow")
    val slower = besideTasks
    q.plan(6)
    q.run.batchEnded(6, 1000)
    assert(besideTasks == slower, "there was no copy")
  }
}
