// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.io.{ByteArrayOutputStream, ObjectOutputStream}

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.PlanLog
import io.megaphone.format.{Compression, Compressions, ExecutorAddress, StateName, WorkerId}
import io.megaphone.plan.{Bins, Group, Move, Operator, Plan, Planner, Step, TransferMode}
import io.megaphone.state.{Holding, Registry}
import io.megaphone.testkit.{Allocated, MemoryRecords}
import io.megaphone.transfer.{BlockName, TransferBlocks}

/** What a batch costs with the most bins and very many workers: the driver's bytes and the
  * executors' requests, no seconds.
  */
class LargeClusterSuite extends AnyFunSuite {
  private val MiB = 1L << 20
  private val workers = 1000
  private val group =
    Group(Vector(Operator(0, "join", Vector("left", "right", "times", "matched"))), workers)
  private val executors = Vector.tabulate(50)(i => ExecutorAddress(s"$i", "host", 1 + i))
  private val view = ClusterView(executors)

  private final class Query {
    private var batch = -1L
    val run =
      new QueryRun("r", "root", new PlanLog(new MemoryRecords), FaultPoints.Off, _ => ())
    run.start(
      QueryRun.FirstBatch(0, Vector(group), Map.empty, 2),
      () => None,
      Bins.Max,
      QueryRun.Settings(),
      _ => (),
      _ => fail("no state is read")
    )

    def plan(now: ClusterView = view): BatchPlan = {
      batch += 1
      run.plan(batch, Vector(group), isOwn = true, Map.empty, now)
    }

    /** Every worker reports its commits. */
    def commit(): Unit = for (store <- group.stores; worker <- 0 until workers) {
      val on = executors(worker % executors.size)
      run.committed(Committed(WorkerId(store.in("r"), worker), batch, on, 1, 1, 1, new Arrivals))
    }

    /** The orders of all executors, as they ask for them once. */
    def orders(): Seq[RunOrders] = executors.flatMap(e => run.ordersFor(e.id))
  }

  /** After three batches, in which all classes were loaded. */
  private def begun = {
    val query = new Query
    for (_ <- 1 to 3) { query.plan(); query.orders(); query.commit() }
    query
  }

  test("a start, and a batch in which nothing moves, cost little beside the routing table") {
    val query = begun
    val starting = Allocated.bytesOf { new Query; () }
    val planning = Allocated.bytesOf(query.plan())
    val ordering = Allocated.bytesOf(query.orders())
    val committing = Allocated.bytesOf(query.commit())
    val commits = workers * group.stores.size
    info(
      s"start ${starting / 1024} KiB, plan ${planning / 1024} KiB, 50 orders " +
        s"${ordering / 1024} KiB, $commits commits ${committing / 1024} KiB"
    )
    assert(starting < 4 * MiB && planning < 4 * MiB && ordering < MiB)
    assert(committing / commits < 4096)
  }

  test("a batch of a plan that moves a tenth of all bins costs some bytes for each replica") {
    val query = begun
    val step = Planner.rescale(query.run.currentTable(0), workers - 100)
    query.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.Prepared))
    val announcing = Allocated.bytesOf(query.plan())
    val first = Allocated.bytesOf(query.orders())
    val again = Allocated.bytesOf(query.orders())
    query.commit()
    val waiting = Allocated.bytesOf(query.plan())
    val replicas = query.orders().map(_.duties.size).sum
    info(
      s"$replicas replicas: announcing ${announcing / MiB} MiB, orders ${first / MiB} MiB, again " +
        s"${again / 1024} KiB, waiting ${waiting / MiB} MiB"
    )
    assert(replicas > 1000)
    val perReplica = Seq(announcing, first, waiting).map(_ / replicas)
    assert(perReplica.max < 4096 && again < MiB)
  }

  test("a plan that waits beside a large step that has just been taken costs little for each bin") {
    val query = begun
    val moved = 8192

    /** Moves so many bins, from one on, each to the next worker. */
    def submit(id: String, from: Int, mode: TransferMode): Unit = {
      val table = query.run.currentTable(0)
      val moves = Vector
        .range(from, from + moved)
        .map(bin => Move(bin, (table.workerOf(bin) + 1) % workers))
      query.run.submit(_ => Plan(id, Map(0L -> Vector(Step(moves, workers))), "all-at-once", mode))
      ()
    }
    submit("taken", 0, TransferMode.Direct)
    for (_ <- 1 to 2) { query.plan(); query.commit() }
    submit("waits", moved, TransferMode.Prepared)
    query.plan()
    query.commit()
    val waiting = Allocated.bytesOf(query.plan())
    val history = query.run.snapshot.get.history
    assert(history.seals.movedAfter(0, 2).size == moved && history.sealedSteps("waits").isEmpty)
    info(s"waiting ${waiting / MiB} MiB")
    assert(waiting / moved < 4096)
  }

  test("what each task is sent of a step has some bytes for each bin that moves") {
    val query = begun
    val table = query.run.currentTable(0)
    val moves = for {
      bin <- Vector.range(0, Bins.Max) if bin / workers % 2 == 0
    } yield Move(bin, (table.workerOf(bin) + 1) % workers)
    val steps = Map(0L -> Vector(Step(moves, workers)))
    query.run.submit(_ => Plan("p", steps, "all-at-once", TransferMode.OnDemand))

    /** The bytes for each bin that moves, of all that is not the table. */
    def sent(): Long = {
      val batch = query.plan()
      query.commit()
      val bytes = new ByteArrayOutputStream
      new ObjectOutputStream(bytes).writeObject(batch.assignments(0))
      bytes.size.toLong / moves.size
    }
    val announced = sent()
    val taken = Iterator.continually(sent()).take(60).toVector
    assert(query.run.snapshot.get.history.sealedSteps("p").nonEmpty)
    info(s"announced: $announced bytes a bin; taken: ${taken.max}; then ${taken.last}")
    assert(announced < 8 && taken.max < 16 && taken.last < 1)
  }

  test("in a batch an executor asks another once for the tails of all of its workers") {
    val query = begun
    val random = new Random(1)
    val moves = Vector.tabulate(4000) { bin =>
      Move(bin, (bin + 1 + random.nextInt(workers - 1)) % workers)
    }
    val step = Step(moves, workers)
    query.run.submit(_ => Plan("p", Map(0L -> Vector(step)), "all-at-once", TransferMode.Prepared))
    for (_ <- 1 to 3) { query.plan(); query.commit() }
    query.plan()
    val requests = for {
      target <- executors
      source <- asked(query.run.ordersFor(target.id).toSeq)
    } yield (target.id, source.id)
    val tails = query.orders().map(_.duties.size).sum
    info(s"$tails tails, ${requests.size} requests")
    assert(tails > 10000 && requests.distinct == requests)
    assert(requests.size <= executors.size * (executors.size - 1))
  }

  test("executors with a tenth of the workers are emptied at a small price for each worker") {
    val query = begun
    val draining = view.copy(draining = executors.take(5).map(_.id).toSet)
    query.plan(draining)
    query.commit()
    val planning = Allocated.bytesOf(query.plan(draining))
    val ordering = Allocated.bytesOf(query.orders())
    val standbys = query.orders().map(_.standbys.size).sum
    info(s"$standbys standbys: plan ${planning / 1024} KiB, 50 orders ${ordering / 1024} KiB")
    assert(query.run.footprint.relocations.count(_.isMaking) == workers / 10)
    assert(standbys == workers / 10 * group.stores.size)
    assert(planning < 24 * MiB && ordering < 16 * MiB)
    assert(Allocated.bytesOf(query.orders()) < MiB, "they are computed once for a batch")
  }

  test("all executors but one are emptied at a small price for each worker, in each batch") {
    val query = begun
    val (leaving, staying) = (executors.tail, executors.head)
    val draining = view.copy(draining = leaving.map(_.id).toSet)
    def price: Seq[Long] = Seq(
      Allocated.bytesOf(query.plan(draining)),
      Allocated.bytesOf(query.orders()),
      Allocated.bytesOf(query.orders())
    )
    val workersLeaving = workers - workers / executors.size
    val first = price
    query.commit()
    def duties = query.run.standbyDutiesOf(staying.id)
    val bins = duties.iterator.map(_.bins.size.toLong).sum
    assert(duties.size == workersLeaving * group.stores.size)
    val making = price
    val standing = duties.map(d => Standing(d.worker, d.settled.version, isWhole = true))
    query.run.reported(Report(staying, Held(0, 0, 0), standing = standing))
    val taking = price
    assert(query.run.footprint.relocations.forall(_.taken.isDefined))
    info(
      s"$workersLeaving workers leave, ${duties.size} standbys of $bins bins: " +
        Seq(first, making, taking).map(_.map(_ / 1024).mkString("/")).mkString(", ") + " KiB"
    )
    for (batch <- Seq(first, making, taking)) {
      assert(batch.head < 48 * MiB && batch(1) < 32 * MiB)
      assert(batch(2) < MiB, "orders are computed once for a batch")
    }
  }

  /** The executors that a target asks for tails, once for each request, if each of its replicas
    * lacks the last one.
    */
  private def asked(orders: Seq[RunOrders]): Seq[ExecutorAddress] = {
    val requests = mutable.Buffer.empty[ExecutorAddress]
    val peers = new SomePeers(_ => None) {
      override def pullAll(blocks: Seq[(BlockName, ExecutorAddress)], deadlineMs: Long)(
          come: (BlockName, Array[Byte]) => Unit
      ): Unit = requests ++= blocks.map(_._2).distinct
    }
    val agent = new ExecutorAgent(
      new Registry,
      peers,
      new TransferBlocks(Compressions(Compression.None)),
      FaultPoints.Off,
      (_, _, _) => fail("no state is read"),
      1000,
      _ => ()
    )
    agent.obey(Orders.of(() => 1, () => orders))
    for (duty <- agent.replicas.duties) {
      val replica = new Holding(duty.key.source, 1)
      replica.restart(StateName(duty.settled.version - 1, ""), Vector.empty)
      agent.registry.putReplica(duty.key, replica)
    }
    agent.replicas.pullTails(agent.replicas.duties)((_, _) => fail("nothing comes"))
    requests.toSeq
  }
}
