// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException

import org.scalatest.Assertions

import io.megaphone.checkpoint.planlog.{LogRecord, PlanLog}
import io.megaphone.format.{ExecutorAddress, StoreId, WorkerId}
import io.megaphone.plan.{Group, Move, Operator, Plan, Step, StepId, TransferMode}
import io.megaphone.state.ReplicaKey
import io.megaphone.testkit.MemoryRecords

/** A run of one group with two workers. Its plan log is in memory, and may fail. */
trait SmallRun extends Assertions {
  protected val group = Group(Vector(Operator(0, "aggregate", Vector("default"))), 2)
  protected val executors = Vector("a", "b").map(ExecutorAddress(_, "host", 1))

  protected final class Log extends MemoryRecords {

    /** Whether the next append is durable, and whether it is confirmed. */
    var isDurable, isConfirmed = true
    var isReadable = true

    /** Whether the next reading alone fails. */
    var isReadLate = false

    var beforeCreate: () => Unit = () => ()

    override def create(number: Long, record: LogRecord): Boolean = {
      beforeCreate()
      val isFree = number == nextNumber
      if (isFree && isDurable) super.create(number, record)
      if (isFree && !isConfirmed) throw new IOException("the connection was lost")
      isFree
    }

    override def read(numbers: Vector[Long]): Vector[Option[LogRecord]] = {
      val isRead = isReadable && !isReadLate
      isReadLate = false
      if (isRead) super.read(numbers) else throw new IOException("no connection")
    }
  }

  protected def commitOf(
      worker: Int,
      on: ExecutorAddress,
      liveBytes: Long = 100,
      batch: Long,
      run: String = "r"
  ) = Committed(
    WorkerId(StoreId(0, "default").in(run), worker),
    batch,
    on,
    keys = 0,
    liveBytes,
    bytes = 0,
    new Arrivals
  )

  protected final class Query(val log: Log = new Log, id: String = "r") {
    var warnings = Vector.empty[String]
    val run = new QueryRun(id, "root", new PlanLog(log), FaultPoints.Off, w => warnings :+= w)

    def start(
        batch: Long,
        committed: Option[Long] = None,
        settings: QueryRun.Settings = QueryRun.Settings(),
        format: Int = 1
    ): this.type = {
      val first = QueryRun.FirstBatch(batch, Vector(group), Map.empty, format)
      run.start(first, () => committed, 8, settings, _ => (), _ => fail("no state is read"))
      this
    }
    def plan(
        batch: Long,
        seen: Vector[ExecutorAddress] = executors,
        isOwn: Boolean = true
    ): BatchPlan = run.plan(batch, Vector(group), isOwn, Map.empty, ClusterView(seen))
    def submit(id: String, moves: Move*): Plan = run.submit(_ => planOf(id, moves: _*))
    def committed(worker: Int, on: Int, liveBytes: Long = 0, batch: Long = 0): Unit =
      run.committed(commitOf(worker, executors(on), liveBytes, batch, id))
  }

  /** An executor has surveyed what the first step of plan p is to take from worker 0 to 1. */
  protected def surveyed(q: Query, executor: ExecutorAddress): Unit = {
    val store = StoreId(0, "default").in("r")
    val key = ReplicaKey.forStep(store, 0, 1, StepId("p", 0, 0))
    q.run.reported(Report(executor, Held(0, 0, 0), surveyed = Vector(key)))
  }

  protected def planOf(id: String, moves: Move*) =
    Plan(id, Map(0L -> Vector(Step(moves.toVector, 2))), "fluid", TransferMode.Direct)
  protected def begun: Query = { val q = new Query().start(0); q.plan(0); q }
  protected def plans(q: Query) = q.run.snapshot.get.history.plans.keys.toVector

  protected val three = executors :+ ExecutorAddress("c", "host", 1)
}
