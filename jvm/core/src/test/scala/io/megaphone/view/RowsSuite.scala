// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.placement.{Load, Member}
import io.megaphone.protocol.PlanStatus
import io.megaphone.runtime.{Held, RecentCommits}
import io.megaphone.view.SomeQuery.{commit, executorOf, fresh, moving, sized}

/** The rows of each table, from the runtime's state. */
class RowsSuite extends AnyFunSuite {

  test("a query's row counts over all its groups, and names the oldest open plan") {
    assert(
      QueryRow.of("id", None, fresh, Map.empty) ==
        QueryRow("id", "run", None, 3, 3, 8, 0, 0, None, None)
    )
    assert(
      QueryRow.of("id", Some("name"), moving, Map.empty) ==
        QueryRow("id", "run", Some("name"), 3, 4, 8, 0, 0, Some(5), Some("one"))
    )
  }

  test("a worker's row has its newest commits over all stores of its group") {
    val commits = new RecentCommits
    Seq(
      commit(0, "left", 0, batch = 1, keys = 99),
      commit(0, "left", 0, batch = 2, keys = 5),
      commit(0, "right", 0, batch = 1, keys = 3),
      commit(1, "default", 0, batch = 3, keys = 1000)
    ).foreach(commits.add)
    assert(
      WorkerRow.of(fresh, executorOf, commits.newest) == Vector(
        WorkerRow(0, 0, Some("a"), 2, 1008, 210, Some(3), 0, 0, 0, 0),
        WorkerRow(0, 1, None, 2, 0, 0, None, 0, 0, 0, 0),
        WorkerRow(2, 0, None, 4, 0, 0, None, 0, 0, 0, 0)
      )
    )
    val row = QueryRow.of("id", None, fresh, commits.newest)
    assert((row.keys, row.bytes) == (1008, 210))
  }

  test("a worker that is no more has no row, and its last commit does not count") {
    val commits = new RecentCommits
    Seq(commit(0, "left", 1, batch = 1), commit(0, "left", 2, batch = 1)).foreach(commits.add)
    assert(WorkerRow.of(fresh, executorOf, commits.newest).map(_.keys) == Vector(0, 10, 0))
  }

  test("a worker that a step has added has a row, with the bins of the newest table") {
    assert(
      WorkerRow.of(moving, executorOf, Map.empty).map(r => (r.operator, r.worker, r.bins)) ==
        Vector((0, 0, 1), (0, 1, 2), (0, 2, 1), (2, 0, 4))
    )
  }

  test("a bin's row has the worker of the newest table, and its executor if it is known") {
    val rows = BinRow.of(moving, executorOf, new RecentCommits)
    assert(
      rows.map(r => (r.operator, r.bin, r.worker)) == Vector(
        (0, 0, 2),
        (0, 1, 1),
        (0, 2, 0),
        (0, 3, 1),
        (2, 0, 0),
        (2, 1, 0),
        (2, 2, 0),
        (2, 3, 0)
      )
    )
    assert(
      rows.filter(_.executor.isDefined).map(r => r.bin -> r.executor) == Vector(2 -> Some("a"))
    )
  }

  test("a bin's row has what all stores of its group have told of it last") {
    val rows = BinRow.of(moving, executorOf, sized).map(r => (r.bin, r.keys, r.bytes))
    assert(
      rows.take(4) == Vector(
        (0, Some(11), Some(110)),
        (1, None, None),
        (2, Some(2), Some(20)),
        (3, None, None)
      )
    )
    val first = BinRow.of(moving, executorOf, sized).head
    assert(first.bytesWritten == Some(1100L) && first.accesses == Some(8L))
  }

  test("a plan's row counts what has taken effect, and has the reason for what has not") {
    assert(
      PlanRow.of(moving, committed = Some(4)) == Vector(
        PlanRow(
          "one",
          PlanStatus.Running,
          "fluid",
          "prepared",
          Vector(0),
          steps = 2,
          stepsDone = 1,
          moves = 3,
          movesDone = 1,
          batchesLeft = 1,
          Vector(5),
          plannedBatch = Some(5),
          Some("Executor b has no room.")
        ),
        PlanRow(
          "two",
          PlanStatus.Failed,
          "as given",
          "direct",
          Vector(0),
          steps = 1,
          stepsDone = 0,
          moves = 1,
          movesDone = 0,
          batchesLeft = 0,
          Vector(),
          plannedBatch = Some(5),
          Some("Its worker is gone.")
        )
      )
    )
  }

  test("a step's row has its batch once it has taken effect, and the bins that stayed") {
    assert(
      StepRow.of(moving, SomeQuery.plan) == Vector(
        StepRow("one", 0, 0, Vector(0, 1), Vector(2, 2), 3, Some(5), Vector(1)),
        StepRow("one", 0, 1, Vector(2), Vector(1), 3, None, Vector())
      )
    )
  }

  test("a migration's row is of a commit into which bins moved, or which recovered the worker") {
    val still = commit(0, "left", 0, 1)
    val arrived = commit(0, "right", 1, 2)
    arrived.arrivals.binsIn = 6
    arrived.arrivals.binsRelabelled = 1
    arrived.arrivals.binsFromPeer = 2
    arrived.arrivals.binsFromCheckpoint = 3
    arrived.arrivals.bytesFromPeer = 4
    arrived.arrivals.bytesFromCheckpoint = 5
    arrived.arrivals.waitNanos = 7999999
    arrived.arrivals.subBins = 8
    arrived.arrivals.questions = 9
    val recovered = commit(2, "default", 0, 3)
    recovered.arrivals.binsRecovered = 2
    assert(
      MigrationRow.of(Vector(still, arrived, recovered)) == Vector(
        MigrationRow(2, 0, "right", 1, "a", 6, 1, 2, 3, 4, 5, 7, isRecovery = false, 8, 9, 0, 0),
        MigrationRow(3, 2, "default", 0, "a", 0, 0, 0, 0, 0, 0, 0, isRecovery = true, 0, 0, 0, 0)
      )
    )
  }

  test("an executor's row has what it reported") {
    assert(
      ExecutorRow.of(
        Vector(Member("a", "host", 7) -> Held(1, 2, 3, 4, 5, 6)),
        Map("a" -> Load(8, 9.4, 10)),
        Map("a" -> 11, "b" -> 12)
      ) ==
        Vector(ExecutorRow("a", "host", "active", 7, 10, 8, 9, 1, 11, 2, 3, 4, 5, 6))
    )
  }
}
