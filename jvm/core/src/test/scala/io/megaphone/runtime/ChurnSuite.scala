// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.PlanLog
import io.megaphone.format.{ExecutorAddress, WorkerId}
import io.megaphone.placement.{Load, Seat}
import io.megaphone.plan.{Group, Move, Operator, Plan, Step, TransferMode}
import io.megaphone.testkit.MemoryRecords

/** Executors that come and go while queries run: where the workers are after some batches, and what
  * was copied for that.
  */
class ChurnSuite extends AnyFunSuite {
  private val Bytes = 100L // of each worker
  private val auto = PlacementSettings(isAuto = true)
  private def e(i: Int) = ExecutorAddress(s"$i", s"host$i", 1)

  /** The queries of an application, and its executors, which do at once what they are told.
    *
    * @param copyBatches
    *   batches that it takes to make a standby
    */
  private final class Application(first: Int, copyBatches: Int = 1) {
    var view = ClusterView((0 until first).map(e).toVector)
    var full = Set.empty[String] // executors without room for standbys
    private var queries = Vector.empty[Query]
    private var next = first

    def come(): ExecutorAddress = {
      val came = e(next)
      next += 1
      view = view.copy(executors = view.executors :+ came)
      came
    }
    def drain(id: String): Unit = view = view.copy(draining = view.draining + id)
    def go(id: String): Unit =
      view = view.copy(view.executors.filterNot(_.id == id), draining = view.draining - id)

    def query(workers: Int, settings: PlacementSettings = auto): Query = {
      queries :+= new Query(s"q${queries.size}", workers, settings)
      queries.last
    }

    /** The executors and what all queries but one have on them, as the host tells it. */
    private def seenBy(one: Query): ClusterView = view.copy(elsewhere =
      Load.byExecutor(queries.filterNot(_ eq one).flatMap(_.run.footprint.loads))
    )

    final class Query(id: String, workers: Int, settings: PlacementSettings) {
      private val group = Group(Vector(Operator(0, "aggregate", Vector("default"))), workers)
      private val store = group.stores.head
      private val begun = mutable.Map.empty[(String, Int), Long] // standby → its first batch
      var batch: Long = -1
      var binsIncomplete = 0 // of each worker, after a batch
      var strays = Map.empty[Int, String] // where some workers run, wherever they are placed
      var onPlanned: () => Unit = () => ()

      /** Bytes of the standbys that were made. */
      var copied = 0L
      val run =
        new QueryRun(id, "root", new PlanLog(new MemoryRecords), FaultPoints.Off, _ => ())
      run.start(
        QueryRun.FirstBatch(0, Vector(group), Map.empty, 2),
        () => None,
        64,
        QueryRun.Settings(placement = settings),
        _ => (),
        _ => fail("no state is read")
      )

      /** Runs batches, each of whose tasks runs where it is wanted. */
      def step(batches: Int = 1): this.type = {
        for (_ <- 1 to batches) {
          batch += 1
          val planned = run.plan(batch, Vector(group), isOwn = true, Map.empty, seenBy(this))
          onPlanned()
          for ((executor, worker) <- planned.decision.batch.executorsOf(0).zipWithIndex)
            run.committed(commit(worker, view.get(strays.getOrElse(worker, executor)).get))
          view.executors.foreach(report)
          run.batchEnded(batch, 100)
        }
        this
      }

      def commit(worker: Int, on: ExecutorAddress): Committed =
        Committed(
          WorkerId(store.in(id), worker),
          batch,
          on,
          1,
          Bytes,
          1,
          new Arrivals,
          busyMs = 10,
          binsIncomplete = binsIncomplete
        )

      def standing(worker: Int, version: Long): Standing =
        Standing(WorkerId(store.in(id), worker), version, isWhole = true, bins = 64)

      private def report(executor: ExecutorAddress): Unit = {
        val duties = run.standbyDutiesOf(executor.id)
        begun.filterInPlace { case ((on, worker), _) =>
          on != executor.id || duties.exists(_.worker.worker == worker)
        }
        val standing = for (duty <- duties) yield {
          val since = begun.getOrElseUpdate((executor.id, duty.worker.worker), batch)
          if (since == batch) copied += Bytes
          val isWhole = batch - since >= copyBatches
          Standing(duty.worker, batch, isWhole, if (isWhole) duty.bins.size else 0)
        }
        val report = Report(executor, Held(0, 0, 0), standing = standing)
        run.reported(
          if (!full(executor.id)) report
          else report.copy(standing = Vector.empty, noRoom = duties.map(_.worker))
        )
      }

      /** Spreads the load, by what is there now. */
      def spread(): Vector[Relocation] = { run.see(seenBy(this)); run.spread(0.1) }

      def relocations(why: Relocation.Why): Vector[Relocation] =
        run.footprint.relocations.filter(_.why == why)

      /** How many workers each executor has. */
      def placed: Map[String, Int] = run.footprint.placed.map { case (id, load) =>
        id -> load.workers
      }
    }
  }

  private def even(executors: Seq[Int], each: Int) = executors.map(i => s"$i" -> each).toMap

  private def spreadOnce(query: Application#Query, workers: Int): Unit = {
    val spread = query.relocations(Relocation.Spread)
    assert(spread.map(_.since).distinct.size == 1, "it was spread once")
    assert(spread.map(_.seat).distinct.size == spread.size && spread.size == workers)
    assert(query.run.footprint.relocations.forall(_.isDone))
  }

  test("three executors come within a moment, and the load is spread once") {
    val app = new Application(1)
    val query = app.query(workers = 8).step(4)
    for (_ <- 1 to 3) { app.come(); query.step() }
    query.step(20)
    assert(query.placed == even(0 to 3, 2))
    spreadOnce(query, workers = 6)
    assert(query.copied == 6 * Bytes, "what came to rest was not moved again")
  }

  test("what could not be spread for want of room is spread again after a while") {
    val app = new Application(1)
    val query = app.query(workers = 4).step(4)
    app.full += app.come().id
    query.step(20)
    assert(query.placed == even(Seq(0), 4))
    app.full = Set.empty
    query.step(900)
    assert(query.placed == even(Seq(0), 4), "the executor is not asked again so soon")
    query.step(200)
    assert(query.placed == even(0 to 1, 2))
    assert(query.copied <= 4 * Bytes)
  }

  test("three executors come amid a plan, and the load is spread once") {
    val app = new Application(1)
    val query = app.query(workers = 8).step(4)
    val steps = query.run.currentTable(0).binsOf(0).toVector.map(b => Step(Vector(Move(b, 1)), 8))
    query.run.submit(_ => Plan("p", Map(0L -> steps), "fluid", TransferMode.Direct))
    for (_ <- 1 to 3) { app.come(); query.step() }
    assert(query.run.snapshot.get.announced.nonEmpty)
    query.step(30)
    assert(query.run.snapshot.get.history.open.isEmpty, "the plan has gone on")
    assert(query.placed == even(0 to 3, 2))
    spreadOnce(query, workers = 6)
  }

  test("three executors come while one is emptied: what is on its way is spread when it is there") {
    val app = new Application(2, copyBatches = 6)
    val query = app.query(workers = 8).step(8)
    assert(query.placed == even(0 to 1, 4))
    app.drain("1")
    query.step(2)
    val leaving = query.relocations(Relocation.Drain)
    assert(leaving.size == 4 && leaving.forall(r => r.isMaking && r.to == "0"))
    for (_ <- 1 to 3) { app.come(); query.step() }
    query.step(40)
    assert(query.placed == even(Seq(0, 2, 3, 4), 2))
    assert(query.relocations(Relocation.Drain).map(_.id) == leaving.map(_.id))
    val spread = query.relocations(Relocation.Spread)
    assert(spread.groupMapReduce(_.since)(_ => 1)(_ + _).values.toSeq.sorted == Seq(2, 4))
    assert(query.run.footprint.relocations.forall(_.isDone))
  }

  test("an executor comes and one goes every ten batches: at most twice what leaves is copied") {
    for (comesFirst <- Seq(true, false)) {
      val app = new Application(4)
      val query = app.query(workers = 8).step(20)
      assert(query.placed == even(0 to 3, 2))
      val before = query.copied
      var left = 0L
      for (oldest <- 0 to 9) {
        if (comesFirst) app.come()
        app.drain(s"$oldest")
        left += query.placed(s"$oldest") * Bytes
        query.step(10)
        assert(query.run.footprint.staysOn(s"$oldest").isEmpty, "it is empty within ten batches")
        app.go(s"$oldest")
        if (!comesFirst) { app.come(); query.step(10) }
      }
      query.step(10)
      assert(query.placed == even(10 to 13, 2))
      val copied = query.copied - before
      info(s"$left bytes left, $copied were copied")
      assert(copied <= (if (comesFirst) left else 2 * left))
    }
  }

  test("queries see each other's loads when they place workers and when they spread them") {
    for (age <- Seq(6, 20)) { // the time that tasks take is known of an old query only
      val app = new Application(2)
      val manual = PlacementSettings(pilotBatches = 0)
      val one = app.query(workers = 4, manual).step(2)
      one.run.relocate((0 to 3).map(w => Seat(0, w) -> "0").toMap)
      one.step(age)
      assert(one.placed == even(Seq(0), 4))
      val two = app.query(workers = 4, manual).step(4)
      assert(two.placed == even(Seq(1), 4), "where the other one has nothing")
      assert(one.spread().isEmpty && two.spread().isEmpty, "together they are even")
    }
  }

  test("an executor is needed before it gets state, and until what was taken from it has come") {
    val app = new Application(4)
    val query = app.query(workers = 3, PlacementSettings()).step(4)
    val run = query.run
    def needed = run.footprint.needed
    assert(needed == Set("0", "1", "2"))
    val last = run.currentTable(0).binsOf(2).toVector
    val (more, less) = (Step(last.map(Move(_, 3)), 4), Step(last.map(Move(_, 0)), 3))
    run.submit(_ => Plan("p", Map(0L -> Vector(more, less)), "", TransferMode.OnDemand))
    query.step()
    assert(run.currentTable(0).workers == 3 && needed == Set("0", "1", "2", "3"))
    def stepTo(workers: Int): Unit = while (run.currentTable(0).workers != workers) query.step()
    stepTo(4)
    query.binsIncomplete = 1
    stepTo(3)
    query.step(3)
    assert(!query.placed.contains("3") && needed("3"), "worker 0 still takes from worker 3")
    query.binsIncomplete = 0
    query.step(2)
    assert(!needed("3"))
  }

  test("a worker has strayed once it has run where it was, after a batch placed it elsewhere") {
    val app = new Application(2, copyBatches = 3)
    val query = app.query(workers = 2, PlacementSettings()).step(4)
    def now = query.run.footprint.on("1", "q", "q0", isIdle = false, None)
    def relocation = query.relocations(Relocation.Drain).last
    app.drain("1")
    query.strays = Map(1 -> "1")
    query.step()
    query.onPlanned =
      () => if (relocation.taken.contains(query.batch)) assert(now.strayed == 0, "it may go there")
    while (relocation.isMaking) {
      assert(now.workers == 1 && now.strayed == 0, "its state is not elsewhere yet")
      query.step()
    }
    assert(relocation.isOpen && now.workers == 1 && now.strayed == 1)
    query.strays = Map.empty
    query.step(2)
    assert(relocation.isDone && now.workers == 0 && now.strayed == 0)
  }

  test("a late report or commit of an executor that is no member moves nothing there") {
    val app = new Application(3)
    val query = app.query(workers = 4, PlacementSettings(replicas = 1)).step(4)
    assert(query.placed == Map("0" -> 2, "1" -> 1, "2" -> 1))
    val known = query.run.footprint.standbys
    assert(known("0") == 1, "it stands by for the worker of executor 2")
    val stranger = e(77)
    val standing = (0 to 3).map(query.standing(_, query.batch + 5)).toVector
    query.run.reported(Report(stranger, Held(0, 0, 0), standing = standing))
    assert(query.run.footprint.standbys == known)
    app.go("2")
    query.step()
    assert(query.placed == Map("0" -> 3, "1" -> 1), "where it is stood by for")
    for (worker <- 0 to 3) query.run.committed(query.commit(worker, stranger))
    assert(query.run.footprint.staysOn("77").size == 4)
    query.step()
    assert(query.run.footprint.staysOn("77").isEmpty, "the next planning does without it")
    assert(query.placed == Map("0" -> 3, "1" -> 1))
  }
}
