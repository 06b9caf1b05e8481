// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.PlanLog
import io.megaphone.format.{ExecutorAddress, WorkerId}
import io.megaphone.plan.{Bins, Group, Operator, Plan, Planner, TransferMode}
import io.megaphone.testkit.{Allocated, MemoryRecords}

/** What a batch costs the driver with the most bins and very many workers: bytes, no seconds. */
class LargeClusterSuite extends AnyFunSuite {
  private val MiB = 1L << 20
  private val workers = 1000
  private val group =
    Group(Vector(Operator(0, "join", Vector("left", "right", "times", "matched"))), workers)
  private val executors = Vector.tabulate(50)(i => ExecutorAddress(s"$i", "host", i))
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

    def plan(): BatchPlan = {
      batch += 1
      run.plan(batch, Vector(group), isOwn = true, Map.empty, view)
    }

    /** Every worker reports its commits. */
    def commit(): Unit = for (store <- group.stores; worker <- 0 until workers) {
      val on = executors(worker % executors.size)
      run.committed(Committed(WorkerId(store.in("r"), worker), batch, on, 1, 1, 1, new Arrivals))
    }

    /** The orders of all executors, as they ask for them once. */
    def orders(): Seq[RunOrders] = executors.flatMap(e => run.ordersFor(e.id))
  }

  private def begun = {
    val query = new Query
    for (_ <- 1 to 3) { query.plan(); query.commit() }
    query
  }

  test("a batch in which nothing moves costs little beside its routing table") {
    val query = begun
    val planning = Allocated.bytesOf(query.plan())
    val ordering = Allocated.bytesOf(query.orders())
    info(s"plan ${planning / 1024} KiB, 50 orders ${ordering / 1024} KiB")
    assert(planning < 4 * MiB && ordering < MiB)
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
}
