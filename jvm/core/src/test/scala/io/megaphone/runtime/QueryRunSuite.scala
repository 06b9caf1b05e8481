// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.IOException
import java.util.concurrent.FutureTask
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.immutable.ArraySeq

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.{LogRecord, PlanLog}
import io.megaphone.errors.{StepNotSealedException, UnsupportedQueryException}
import io.megaphone.format.{ExecutorAddress, StoreId, WorkerId}
import io.megaphone.pace.TransferRate
import io.megaphone.placement.Seat
import io.megaphone.plan.{Group, Move, Operator, Plan, Step, StepId, TransferMode}
import io.megaphone.protocol.{PlanStatus, Protocol, Route}
import io.megaphone.state.ReplicaKey
import io.megaphone.testkit.MemoryRecords
import io.megaphone.view.PlanRow

/** The driver's part of the runtime on a plan log whose file system is not to be trusted. */
class QueryRunSuite extends AnyFunSuite {
  private val group = Group(Vector(Operator(0, "aggregate", Vector("default"))), 2)
  private val executors = Vector("a", "b").map(ExecutorAddress(_, "host", 1))

  private final class Log extends MemoryRecords {

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

  private def commitOf(
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

  private final class Query(val log: Log = new Log, id: String = "r") {
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
  private def surveyed(q: Query, executor: ExecutorAddress): Unit = {
    val store = StoreId(0, "default").in("r")
    val key = ReplicaKey.forStep(store, 0, 1, StepId("p", 0, 0))
    q.run.reported(Report(executor, Held(0, 0, 0), surveyed = Vector(key)))
  }

  private def planOf(id: String, moves: Move*) =
    Plan(id, Map(0L -> Vector(Step(moves.toVector, 2))), "fluid", TransferMode.Direct)
  private def begun: Query = { val q = new Query().start(0); q.plan(0); q }
  private def plans(q: Query) = q.run.snapshot.get.history.plans.keys.toVector

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

  test("workers are pinned where they are wanted, until they are known to run there") {
    val q = new Query().start(0)
    def pins(p: BatchPlan) = p.pins.map(pin => pin.worker -> pin.executor.id)
    def ran(worker: Int, on: Int) = q.committed(worker, on)
    assert(pins(q.plan(0)) == Vector(0 -> "a", 1 -> "b"))
    ran(0, on = 0)
    ran(1, on = 1)
    assert(pins(q.plan(1)).isEmpty)
    assert(pins(q.plan(2, executors.take(1))) == Vector(1 -> "a"), "its executor is gone")
    ran(1, on = 0)
    assert(pins(q.plan(3)).isEmpty, "a worker stays where it runs")
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
          q.run.reported(Report(executors(1), Held(0, 0, 0), Vector(key(step) -> batch)))
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

  test(
    "several consecutive steps of a plan are taken by one batch, none of whose bins moves twice"
  ) {
    val settings = QueryRun.Settings(Protocol.Settings(stepsPerBatch = 3))
    val q = new Query().start(0, settings = settings)
    q.plan(0)
    val steps = Vector(Move(0, 1), Move(2, 1), Move(0, 0), Move(4, 1)).map(m => Step(Vector(m), 2))
    q.run.submit(_ => Plan("p", Map(0L -> steps), "fluid", TransferMode.Prepared))
    q.plan(1)
    for (
      (step, key) <- q.run.snapshot.get.announced.map(_.id).zip(Seq((0, 1), (0, 1), (0, 0), (0, 1)))
    )
      q.run.reported(
        Report(
          executors(1),
          Held(0, 0, 0),
          Vector(ReplicaKey.forStep(StoreId(0, "default").in("r"), key._1, key._2, step) -> 1L)
        )
      )
    val planned = q.plan(2)
    assert(planned.decision.sealedSteps.map(_.id.index) == Vector(0, 1))
    assert(planned.assignments(0).incoming.map(_.bins) == Vector(Vector(0), Vector(2)))
    assert(q.run.snapshot.get.history.sealedSteps("p").keySet.map(_.index) == Set(0, 1))
  }

  test("no worker is placed on an executor that leaves, unless all do") {
    val q = begun
    def wanted(leaving: String*) = q.run
      .plan(1, Vector(group), true, Map.empty, ClusterView(executors, leaving.toSet))
      .decision
      .batch
      .executorsOf(0)
    assert(wanted("a") == Vector("b", "b"))
    q.submit("p", Move(0, 1))
    val all = q.run.plan(2, Vector(group), true, Map.empty, ClusterView(executors, Set("a", "b")))
    assert(all.decision.batch.executorsOf(0) == Vector("b", "b"), "there is no other")
  }

  private def standing(worker: Int, version: Long, isWhole: Boolean = true, bins: Int = 0) =
    Standing(WorkerId(StoreId(0, "default").in("r"), worker), version, isWhole, bins)

  test("a lost executor's workers go where the newest whole standby is, at once") {
    val q = new Query()
      .start(0, settings = QueryRun.Settings(placement = PlacementSettings(replicas = 2)))
    q.plan(0, three)
    assert(Seq("a", "b", "c").forall(q.run.standbyDutiesOf(_).isEmpty), "there is no state yet")
    for (worker <- 0 to 1) q.committed(worker, on = worker, liveBytes = 100)
    q.plan(1, three)
    val duties = q.run.standbyDutiesOf("c")
    assert(duties.map(_.worker.worker) == Seq(0, 1) && duties.forall(_.settled.version == 1))
    assert(duties.map(_.bins) == Seq(Vector(0, 2, 4, 6), Vector(1, 3, 5, 7)))
    assert(q.run.standbyDutiesOf("a").map(_.worker.worker) == Seq(1))
    def report(executor: Int, of: Standing*) =
      q.run.reported(Report(three(executor), Held(0, 0, 0), standing = of.toVector))
    report(1, standing(0, 1, isWhole = false))
    report(2, standing(0, 0))
    assert(
      q.run.footprint.standbysOf(group, 0) == Seq("c") && q.run.footprint.standbys == Map("c" -> 1)
    )
    def pins(seen: Vector[ExecutorAddress]) =
      q.run.clusterChanged(ClusterView(seen)).map(p => p.worker -> p.executor.id)
    assert(pins(three.tail) == Seq(0 -> "c"), "the one that is whole, although b has it newer")
    report(2)
    assert(pins(three.tail) == Seq(0 -> "c"), "it stays there")
    assert(q.run.footprint.losses == Vector(Loss("a", 1, workers = 1, promoted = 1)))
    assert(
      q.run
        .takeNews() == PlacingNews(q.run.footprint.losses, Vector.empty) && q.run.takeNews().isEmpty
    )
    assert(q.plan(1, three.tail).decision.batch.number == 1)
    assert(q.plan(2, three.tail).decision.batch.executorsOf(0) == Vector("c", "b"))
  }

  test("a lost executor's workers go to a standby that may get them, although another is newer") {
    val four = three :+ ExecutorAddress("d", "host", 1)
    for (isLeaving <- Seq(false, true)) {
      val q = settledOn(four, PlacementSettings(replicas = 2))
      q.plan(1, four)
      says(q, four(1), standing(0, 2))
      says(q, four(3), standing(0, 1))
      val b = Set("b")
      val view =
        if (isLeaving) ClusterView(four.tail, leaving = b) else ClusterView(four.tail, draining = b)
      val pins = q.run.clusterChanged(view).filter(_.worker == 0)
      assert(pins.map(_.executor.id) == Seq("d"), "c has nothing")
      assert(q.run.footprint.losses.map(_.promoted) == Seq(1))
    }
  }

  private val three = executors :+ ExecutorAddress("c", "host", 1)

  /** A run whose workers 0 and 1 run on a and b, of so many executors. */
  private def settledOn(seen: Vector[ExecutorAddress], placement: PlacementSettings) = {
    val q = new Query().start(0, settings = QueryRun.Settings(placement = placement))
    q.plan(0, seen)
    for (worker <- 0 to 1) q.committed(worker, on = worker, liveBytes = 100)
    q
  }

  private def placesOf(plan: BatchPlan) = plan.decision.batch.executorsOf(0)

  private def says(q: Query, executor: ExecutorAddress, of: Standing*) =
    q.run.reported(Report(executor, Held(0, 0, 0), standing = of.toVector))

  /** Executors report the standbys that they are asked for: some as they are said to be, and those
    * of worker 1 as good as can be.
    */
  private def sayStandbys(q: Query, batch: Long)(
      some: PartialFunction[(String, Int), Standing]
  ): Unit = for (executor <- three) {
    val standings = q.run.standbyDutiesOf(executor.id).map(_.worker.worker).flatMap { worker =>
      some
        .lift((executor.id, worker))
        .orElse(Option.when(worker == 1)(standing(1, batch)))
    }
    says(q, executor, standings: _*)
  }

  test("a worker goes to another executor once that has all of its state") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    val begun = q.run.relocate(Map(Seat(0, 0) -> "c", Seat(0, 1) -> "b"))
    assert(begun.map(r => (r.seat.worker, r.from, r.to)) == Vector((0, "a", "c")), "1 is there")
    assert(q.run.standbyDutiesOf("c").map(_.worker.worker) == Seq(0))
    assert(placesOf(q.plan(2, three)) == Vector("a", "b"))
    says(q, three(2), standing(0, 2, isWhole = false))
    assert(placesOf(q.plan(3, three)) == Vector("a", "b"))
    says(q, three(2), standing(0, 2))
    assert(placesOf(q.plan(3, three)) == Vector("a", "b"), "a batch gets its places once")
    val taken = q.plan(4, three)
    assert(placesOf(taken) == Vector("c", "b"))
    assert(taken.pins.map(p => p.worker -> p.executor.id) == Vector(0 -> "c"))
    assert(q.run.footprint.relocations.map(_.status) == Vector("taken"))
    assert(q.run.standbyDutiesOf("c").nonEmpty, "its task may run elsewhere")
    assert(placesOf(q.plan(5, three)) == Vector("c", "b"), "it has not been heard of yet")
    q.committed(0, on = 0, liveBytes = 100, batch = 5)
    assert(placesOf(q.plan(6, three)) == Vector("c", "b"), "it is sent there again")
    q.run.committed(commitOf(0, three(2), batch = 6))
    q.plan(7, three)
    assert(q.run.footprint.relocations.map(_.status) == Vector("done"))
    assert(q.run.takeNews().ended == q.run.footprint.relocations && q.run.takeNews().isEmpty)
    assert(q.run.standbyDutiesOf("c").isEmpty && q.run.footprint.staysOn("a").isEmpty)
  }

  test("an executor that is to be emptied loses its workers, and gets them not again") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    def view(draining: String*) = ClusterView(three, draining = draining.toSet)
    def plan(batch: Long, draining: String*) =
      q.run.plan(batch, Vector(group), true, Map.empty, view(draining: _*))
    assert(q.run.clusterChanged(view("a")).isEmpty, "its tasks go on there")
    assert(q.run.footprint.relocations.map(r => (r.to, r.why)) == Vector(("c", Relocation.Drain)))
    says(q, three(2), standing(0, 1))
    assert(placesOf(plan(2, "a")) == Vector("c", "b"))
    q.run.committed(commitOf(0, three(2), batch = 2))
    assert(placesOf(plan(3, "a")) == Vector("c", "b") && q.run.footprint.staysOn("a").isEmpty)
    q.run.clusterChanged(view("a", "b"))
    assert(q.run.footprint.relocations.last.to == "c", "a is to be emptied, too")
    plan(4, "a")
    assert(q.run.footprint.relocations.last.status == "cancelled", "b keeps its workers after all")
  }

  test("bins that a step has just brought are nowhere else before the next batch is planned") {
    val q = settledOn(executors, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1)
    def isElsewhere(version: Long) = {
      says(q, executors(0), standing(1, version))
      q.run.footprint.isElsewhere(Seat(0, 1))
    }
    assert(isElsewhere(1))
    q.submit("one", Move(0, 1))
    for (batch <- 2L to 3L) q.plan(batch)
    assert(q.run.snapshot.get.history.sealedSteps("one").nonEmpty && !isElsewhere(3))
    q.plan(4)
    assert(isElsewhere(4))
  }

  test("workers of an executor that gets no more tasks leave at once, and are stood by for") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    val view = ClusterView(three, leaving = Set("a"))
    assert(q.run.clusterChanged(view).map(p => p.worker -> p.executor.id) == Vector(0 -> "c"))
    val begun = q.run.footprint.relocations
    assert(
      begun.map(r => (r.from, r.to, r.why, r.status)) == Vector(
        ("a", "c", Relocation.Drain, "taken")
      )
    )
    assert(q.run.standbyDutiesOf("c").map(_.worker.worker) == Vector(0), "while the query is idle")
    assert(!q.run.footprint.isElsewhere(Seat(0, 0)))
    says(q, three(2), standing(0, 1))
    assert(q.run.footprint.isElsewhere(Seat(0, 0)))
    val next = q.run.plan(2, Vector(group), true, Map.empty, view)
    assert(
      placesOf(next) == Vector("c", "b") && q.run.footprint.relocations == begun,
      "they have begun"
    )
    q.run.committed(commitOf(0, three(2), batch = 2))
    q.run.plan(3, Vector(group), true, Map.empty, view)
    assert(
      q.run.footprint.relocations
        .map(_.status) == Vector("done") && q.run.footprint.staysOn("a").isEmpty
    )
  }

  test("a relocation whose target is lost or whose worker is gone fails, and says so") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    q.run.relocate(Map(Seat(0, 0) -> "c"))
    assert(placesOf(q.plan(2, three.init)) == Vector("a", "b"))
    assert(q.run.footprint.relocations.last.reason.exists(_.contains("c gets no workers")))
    assert(q.run.standbyDutiesOf("c").isEmpty)
    q.run.see(ClusterView(three))
    q.run.relocate(Map(Seat(0, 0) -> "c"))
    q.run.cancelRelocations(Set(2))
    assert(q.run.footprint.relocations.map(_.status) == Vector("failed", "cancelled"))
    assert(q.run.standbyDutiesOf("c").isEmpty)
    q.run.relocate(Map(Seat(0, 1) -> "c"))
    q.run.submit(_ =>
      Plan("p", Map(0L -> Vector(Step(gone, 1))), "all-at-once", TransferMode.Direct)
    )
    q.plan(3, three)
    assert(q.plan(4, three).decision.sealedSteps.nonEmpty)
    q.plan(5, three)
    q.plan(6, three)
    assert(
      q.run.footprint.relocations.last.reason.contains("The query has no such worker any more.")
    )
  }

  private val gone = Vector(1, 3, 5, 7).map(Move(_, 0))

  test("a relocation whose target copies nothing fails, and the next one goes elsewhere") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    def plan(batch: Long) =
      q.run.plan(batch, Vector(group), true, Map.empty, ClusterView(three, draining = Set("b")))
    plan(1)
    val first = q.run.footprint.relocations.last.to
    (2L to 60L).foreach(plan)
    val (failed, next) = (q.run.footprint.relocations.head, q.run.footprint.relocations.last)
    assert(failed.to == first && failed.reason.exists(_.contains("copied nothing")))
    assert(next.to != first && next.isOpen)
  }

  test("a worker waits for its turn at an executor that copies others, for however long") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    q.run.relocate(Map(Seat(0, 0) -> "c", Seat(0, 1) -> "c"))
    def statuses = q.run.footprint.relocations.map(_.status)
    for (batch <- 2L to 100L) {
      def made(worker: Int, bins: Int) = standing(worker, batch - 1, isWhole = false, bins)
      says(q, three(2), made(0, batch.toInt), made(1, 0))
      q.plan(batch, three)
    }
    (101L to 148L).foreach(q.plan(_, three))
    assert(statuses == Vector("making", "making"))
    q.plan(149, three)
    assert(statuses == Vector("failed", "failed"), "nothing has been copied for too long")
  }

  test("a drain to the only executor that is left waits if that one has no room") {
    val two = three.take(2)
    val q = settledOn(two, PlacementSettings(pilotBatches = 0))
    val from = q.run.footprint.executorOf(0, 0).get
    val to = two.find(_.id != from).get
    def plan(batch: Long) =
      q.run.plan(batch, Vector(group), true, Map.empty, ClusterView(two, draining = Set(from)))
    def ofWorker = q.run.footprint.relocations.filter(_.seat == Seat(0, 0))
    plan(1)
    val worker = q.run.standbyDutiesOf(to.id).find(_.worker.worker == 0).get.worker
    q.run.reported(Report(to, Held(0, 0, 0), noRoom = Vector(worker)))
    (2L to 40L).foreach(plan)
    assert(ofWorker.map(_.status) == Seq("failed"))
    (41L to 60L).foreach(plan)
    assert(ofWorker.map(_.status) == Seq("failed", "making"))
  }

  test("a worker goes at once to an executor that had no room, and has all of its state now") {
    val two = three.take(2)
    val q = settledOn(two, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1, two)
    val from = q.run.footprint.executorOf(0, 0).get
    val to = two.find(_.id != from).get
    val worker = q.run.standbyDutiesOf(to.id).find(_.worker.worker == 0).get.worker
    q.run.reported(Report(to, Held(0, 0, 0), noRoom = Vector(worker)))
    says(q, to, standing(0, 1))
    q.run.plan(2, Vector(group), true, Map.empty, ClusterView(two, draining = Set(from)))
    val begun = q.run.footprint.relocations.filter(_.seat == Seat(0, 0))
    assert(begun.map(r => (r.to, r.status)) == Seq((to.id, "taken")))
  }

  test("an executor that has no room for a worker is asked again only after a long time") {
    val q = settledOn(three, PlacementSettings(replicas = 1, pilotBatches = 0))
    def standbyOf(batch: Long) = {
      q.plan(batch, three)
      three.map(_.id).filter(e => q.run.standbyDutiesOf(e).exists(_.worker.worker == 0))
    }
    val first = standbyOf(1).head
    val worker = q.run.standbyDutiesOf(first).find(_.worker.worker == 0).get.worker
    def hasNoRoom(executor: String) = q.run.reported(
      Report(three.find(_.id == executor).get, Held(0, 0, 0), noRoom = Vector(worker))
    )
    hasNoRoom(first)
    val second = standbyOf(2)
    assert(second.size == 1 && second != Vector(first))
    assert(standbyOf(1000) == second)
    hasNoRoom(second.head)
    assert(standbyOf(1500) == Vector(first), "which may have room by now")
    q.run.relocate(Map(Seat(0, 0) -> first))
    hasNoRoom(first)
    standbyOf(1501)
    assert(q.run.footprint.relocations.last.reason.exists(_.contains(s"$first has no room")))
  }

  test("a standby on an executor that is to be emptied ends once no other executor has room") {
    val q = settledOn(three, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1, three)
    def of(executor: String) = q.run.standbyDutiesOf(executor).find(_.worker.worker == 0)
    val there = three.find(e => of(e.id).isDefined).get
    val other = three.find(e => e.id != "a" && e != there).get
    def plan(batch: Long) = {
      val view = ClusterView(three, draining = Set(there.id))
      q.run.plan(batch, Vector(group), true, Map.empty, view)
      says(q, there, standing(0, batch))
    }
    says(q, there, standing(0, 1))
    (2L to 9L).foreach(plan)
    def onThere = q.run.footprint.on(there.id, "q", "r", isIdle = false, None)
    assert(of(there.id).isDefined && of(other.id).isDefined && onThere.withoutRoom.isEmpty)
    q.run.reported(Report(other, Held(0, 0, 0), noRoom = Vector(of(other.id).get.worker)))
    assert(onThere.standbysLacking > 0 && onThere.withoutRoom == Vector(other.id))
    plan(10)
    assert(of(there.id).isEmpty && of(other.id).isDefined, "it may have room one day")
    assert(onThere.standbysLacking == 0)
  }

  test("a standby that falls behind counts as none, and another executor is asked after a while") {
    val q = settledOn(three, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1, three)
    val first = three.map(_.id).find(q.run.standbyDutiesOf(_).exists(_.worker.worker == 0)).get
    def at(batch: Long) = {
      q.plan(batch, three)
      val asked = three.map(_.id).filter(q.run.standbyDutiesOf(_).exists(_.worker.worker == 0))
      sayStandbys(q, batch) { case (`first`, 0) => standing(0, 1) } // it gets no further
      (q.run.footprint.standbysOf(group, 0), asked)
    }
    assert(at(16) == ((Seq(first), Seq(first))), "its tails lead on")
    assert((17L to 67L).forall(at(_) == ((Nil, Seq(first)))) && q.warnings.isEmpty)
    val other = at(68)._2
    assert(other.size == 1 && other != Seq(first))
    assert(at(69) == ((Nil, other)))
    assert(q.warnings.map(_.startsWith(s"Query r: Executor $first does not come")) == Seq(true))
    val lost = three.filterNot(_.id == "a")
    assert(q.run.clusterChanged(ClusterView(lost)).exists(_.worker == 0))
    assert(q.run.footprint.losses.map(_.promoted) == Seq(0), "it would read everything")
  }

  test("a worker goes back where its state is after Spark has run it elsewhere, a few times") {
    val settings = PlacementSettings(pilotBatches = 0)
    val q = settledOn(three, settings)
    q.plan(1, three)
    def runsOn(executor: Int, batch: Long) =
      q.run.committed(commitOf(0, three(executor), batch = batch))
    runsOn(2, batch = 1)
    val back = q.plan(2, three)
    assert(placesOf(back) == Vector("a", "b"))
    assert(back.pins.map(p => (p.worker, p.executor.id)) == Vector((0, "a")))
    runsOn(0, batch = 2)
    assert(placesOf(q.plan(3, three)) == Vector("a", "b"))
    for (batch <- 3L to 7L) {
      runsOn(2, batch)
      assert(placesOf(q.plan(batch + 1, three)) == Vector("a", "b"))
    }
    runsOn(2, batch = 8)
    assert(placesOf(q.plan(9, three)) == Vector("c", "b"), "Spark wants it so")
    assert(placesOf(q.plan(10, three)) == Vector("c", "b"))
    val leaving = settledOn(three, settings)
    leaving.plan(1, three)
    leaving.run.committed(commitOf(0, three(2), batch = 1))
    val view = ClusterView(three, draining = Set("a"))
    assert(placesOf(leaving.run.plan(2, Vector(group), true, Map.empty, view)).head == "c")
  }

  test("a worker whose bins are about to change stays where Spark has run it") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.OnDemand))
    q.plan(1, three)
    def runs(worker: Int, on: Int, batch: Long, incomplete: Int = 0) = q.run.committed(
      commitOf(worker, three(on), batch = batch).copy(binsIncomplete = incomplete)
    )
    runs(0, on = 2, batch = 1)
    assert(placesOf(q.plan(2, three)) == Vector("c", "b"), "the step takes bins from it")
    surveyed(q, three(2))
    assert(q.plan(3, three).decision.sealedSteps.nonEmpty)
    (3L to 6L).foreach { batch =>
      runs(1, on = 1, batch, incomplete = 1)
      q.plan(batch + 1, three)
    }
    runs(1, on = 0, batch = 7, incomplete = 1)
    assert(placesOf(q.plan(8, three))(1) == "a", "b would read bins that are incomplete")
    runs(1, on = 0, batch = 8)
    q.plan(9, three)
    runs(1, on = 1, batch = 9)
    assert(placesOf(q.plan(10, three))(1) == "a", "all has come")
  }

  test("what a step on demand left on an executor that is to go comes as fast as can be") {
    val rate = TransferRate.Settings(slowdown = 0.1, maxBytesPerSecond = 1L << 30)
    val q = new Query().start(0, settings = QueryRun.Settings(transferRate = rate))
    q.plan(0)
    for (worker <- 0 to 1) q.committed(worker, on = worker, liveBytes = 100)
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.OnDemand))
    q.plan(1)
    surveyed(q, executors(0))
    assert(q.plan(2).decision.sealedSteps.nonEmpty)
    def has(exports: Int) = {
      val of = if (exports > 0) Map("r" -> exports) else Map.empty[String, Int]
      q.run.reported(Report(executors(0), Held(0, 0, 0), exports = of))
    }
    def isHurried = q.run.live.get.copyRate.besideTasks == (1L << 30)
    has(exports = 1)
    assert(!isHurried)
    q.run.see(ClusterView(executors, draining = Set("a")))
    assert(isHurried)
    has(exports = 0)
    assert(!isHurried, "relocations keep to the rate")
    has(exports = 1)
    assert(isHurried)
    q.committed(worker = 1, on = 1, batch = 2)
    q.run.see(ClusterView(executors, draining = Set("a")))
    q.run.reported(Report(executors(1), Held(0, 0, 0)))
    assert(!isHurried, "all has come")
  }

  test("a standby that is never whole is asked of another executor after a while") {
    val q = settledOn(three, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1, three)
    def asked = three.map(_.id).filter(q.run.standbyDutiesOf(_).exists(_.worker.worker == 0))
    val first = asked.head
    for (batch <- 2L to 50L) {
      // It has two bins, or has lost them.
      sayStandbys(q, batch) {
        case (_, 0) if batch % 2 == 0 => standing(0, batch, isWhole = false, bins = 2)
      }
      q.plan(batch, three)
      assert(asked == Seq(first) && q.warnings.isEmpty)
    }
    q.plan(51, three)
    assert(asked.size == 1 && asked != Seq(first))
    (52L to 60L).foreach(q.plan(_, three))
    assert(q.warnings.map(_.startsWith(s"Query r: Executor $first does not come")) == Seq(true))
  }

  test("the load is spread once executors have come and settled; a new one gets a pilot first") {
    val q = new Query().start(
      0,
      settings = QueryRun.Settings(placement = PlacementSettings(isAuto = true))
    )
    q.plan(0, executors.take(1))
    for (worker <- 0 to 1) q.committed(worker, on = 0, liveBytes = 100 + worker)
    q.plan(1, executors.take(1))
    q.plan(2)
    q.plan(3)
    assert(q.run.footprint.relocations.isEmpty)
    q.plan(4)
    assert(q.run.footprint.relocations.map(r => (r.seat.worker, r.to, r.why)).size == 1)
    val more = executors :+ ExecutorAddress("c", "host", 1)
    q.run.cancelRelocations(Set(1))
    q.plan(5, more)
    q.run.relocate(Map(Seat(0, 0) -> "c", Seat(0, 1) -> "c"))
    says(q, more(2), standing(0, 5), standing(1, 5))
    assert(placesOf(q.plan(6, more)) == Vector("c", "a"), "the lightest")
    assert(placesOf(q.plan(7, more)) == Vector("c", "a"), "until it has run")
    q.run.committed(commitOf(0, more(2), batch = 7))
    says(q, more(2), standing(1, 8))
    assert(placesOf(q.plan(8, more)) == Vector("c", "a"))
    assert(placesOf(q.plan(9, more)) == Vector("c", "a"))
    assert(placesOf(q.plan(10, more)) == Vector("c", "c"))
    assert(q.run.footprint.relocations.map(_.status).drop(1) == Vector("done", "taken"))
  }

  test("an executor makes the lightest of the workers first that it is to take over") {
    val q = new Query()
      .start(0, settings = QueryRun.Settings(placement = PlacementSettings(replicas = 2)))
    q.plan(0, three)
    for ((worker, bytes) <- Seq(0 -> 300L, 1 -> 200L)) q.committed(worker, on = 0, bytes)
    q.plan(1, three)
    def onC = q.run.standbyDutiesOf("c").map(_.worker.worker)
    assert(onC == Seq(0, 1), "it is to run none of them")
    q.run.relocate(Map(Seat(0, 0) -> "c"))
    assert(onC == Seq(0, 1))
    q.run.relocate(Map(Seat(0, 1) -> "c"))
    assert(onC == Seq(1, 0))
  }

  test("a relocation lets the steps of its worker go first, for a while") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0, patienceBatches = 3))
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.Prepared))
    q.plan(1, three)
    q.run.relocate(Map(Seat(0, 1) -> "c"))
    def at(batch: Long) = { says(q, three(2), standing(1, batch)); placesOf(q.plan(batch, three)) }
    assert(at(2) == Vector("a", "b") && at(3) == Vector("a", "b") && at(4) == Vector("a", "b"))
    assert(at(5) == Vector("a", "c"))
  }

  test("that there are too few executors for the standbys is said once, until it changes") {
    val q = new Query()
      .start(0, settings = QueryRun.Settings(placement = PlacementSettings(replicas = 2)))
    def told(batch: Long, seen: Vector[ExecutorAddress]) = {
      val before = q.warnings.size
      q.plan(batch, seen)
      q.warnings.drop(before)
    }
    val first = told(0, executors)
    assert(first.size == 1)
    for (said <- Seq("asks for 2 standbys", "take state is 2.", "at least 3 executors"))
      assert(first.head.contains(said))
    assert(told(0, executors).isEmpty && told(1, executors).isEmpty)
    assert(told(2, three).isEmpty && told(3, three.take(1)).exists(_.contains("state is 1.")))
    assert(told(4, executors).size == 1 && told(5, three).isEmpty && told(6, executors).size == 1)
    val without = begun
    without.plan(1, executors.take(1))
    assert(without.warnings.isEmpty, "nobody asks for standbys")
  }

  test("bins that leave a worker with the batch are not stood by for") {
    val q = new Query()
      .start(0, settings = QueryRun.Settings(placement = PlacementSettings(replicas = 1)))
    q.plan(0)
    for (worker <- 0 to 1) q.committed(worker, on = worker, liveBytes = 100)
    q.submit("p", Move(0, 1))
    q.plan(1)
    val step = q.plan(2)
    assert(step.decision.sealedSteps.nonEmpty)
    assert(q.run.standbyDutiesOf("b").map(_.bins) == Seq(Vector(2, 4, 6)))
    assert(q.run.standbyDutiesOf("a").map(_.bins) == Seq(Vector(1, 3, 5, 7)))
  }

  test("a standby stays where a step relies on it, also if others should stand by") {
    val q = settledOn(executors, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1)
    says(q, executors(1), standing(0, 1))
    q.submit("p", Move(0, 1))
    assert(q.plan(2).assignments(0).outgoing.map(_.routes) == Vector(Vector.empty), "b has it")
    def onB = q.run.standbyDutiesOf("b").map(_.worker.worker).contains(0)
    def emptied(batch: Long) = {
      says(q, three(2), standing(0, batch), standing(1, batch))
      q.run.plan(batch, Vector(group), true, Map.empty, ClusterView(three, draining = Set("b")))
    }
    q.run.clusterChanged(ClusterView(three, draining = Set("b")))
    assert(emptied(3).decision.sealedSteps.nonEmpty && onB, "the batch takes its bins")
    assert(q.run.footprint.standbysOn("b", isIdle = false) == Vector(Seat(0, 0)))
    assert(q.run.footprint.standbysOn("b", isIdle = true).isEmpty, "no batch may come")
    emptied(4)
    assert(!onB, "it is over")
  }

  test("a source lends what a step on demand takes, also if the target's executor stands by") {
    val q = settledOn(executors, PlacementSettings(replicas = 1, pilotBatches = 0))
    q.plan(1)
    says(q, executors(1), standing(0, 1))
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.OnDemand))
    assert(q.plan(2).assignments(0).outgoing.map(_.routes) == Vector(Vector.empty), "b has it")
    says(q, executors(1), standing(0, 2))
    val incoming = q.plan(3).assignments(0).incoming
    assert(incoming.flatMap(_.onDemand) == Vector(Vector(Route(0, 1, ArraySeq(0)))))
  }

  /** A run whose batch 2 sends worker 0 from a to c. */
  private def sendingToC: Query = {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    q.run.relocate(Map(Seat(0, 0) -> "c"))
    says(q, three(2), standing(0, 2))
    assert(placesOf(q.plan(2, three)) == Vector("c", "b"))
    q
  }

  test("an executor keeps the state of a worker that the batch under way sends there") {
    val q = sendingToC
    def onC = q.run.standbyDutiesOf("c").nonEmpty
    q.run.clusterChanged(ClusterView(three, draining = Set("c")))
    assert(onC, "its task may open there yet")
    q.run.relocate(Map(Seat(0, 0) -> "b"))
    assert(onC && q.run.standbyDutiesOf("b").nonEmpty)
    q.plan(3, three)
    assert(!onC, "the batch is over")
  }

  test("a worker that has arrived has no standby where it runs") {
    val q = sendingToC
    q.run.clusterChanged(ClusterView(three))
    q.run.committed(commitOf(0, three(2), batch = 2))
    q.run.batchEnded(2, 100)
    assert(q.run.footprint.relocations.map(_.status) == Vector("done"))
    assert(q.run.standbyDutiesOf("c").isEmpty && q.run.footprint.standbysOf(group, 0).isEmpty)
  }

  test("a step is taken from the target of a relocation that was cancelled meanwhile") {
    val q = settledOn(three, PlacementSettings(pilotBatches = 0))
    q.plan(1, three)
    val begun = q.run.relocate(Map(Seat(0, 0) -> "b"))
    says(q, three(1), standing(0, 1))
    val step = Step(Vector(Move(0, 1)), 2)
    q.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.Prepared))
    assert(q.plan(2, three).assignments(0).outgoing.map(_.routes) == Vector(Vector.empty))
    q.run.cancelRelocations(begun.map(_.id).toSet)
    says(q, three(1), standing(0, 2))
    assert(q.plan(3, three).decision.sealedSteps.nonEmpty)
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
    assert(first.announced.last.images.keySet.map(_._2) == Set(1), "worker 1 has the bin now")
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
