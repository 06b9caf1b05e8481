// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.checkpoint.planlog.{History, LogRecord}
import io.megaphone.checkpoint.planlog.LogRecord.{Cancelled, Sealed, Started, Submitted}
import io.megaphone.format.{ExecutorAddress, StoreId, WorkerId}
import io.megaphone.plan.{
  Group, Move, Operator, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode
}
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.{Arrivals, BinSizes, Committed, RecentCommits}

/** A query of two groups over four bins: a join and what comes after it, and a global aggregate.
  * Two plans have been submitted to it; a step of the first has taken effect.
  */
private[view] object SomeQuery {
  private val join = Operator(0, "symmetricHashJoin", Vector("left", "right"))
  private val after = Operator(1, "dedupe", Vector("default"))
  private val aggregate = Operator(2, "stateStoreSave", Vector("default"))
  private val groups =
    Vector(Group(Vector(join, after), 2), Group(Vector(aggregate), 1, isMovable = false))
  private val first = Map(0L -> RoutingTable.roundRobin(4, 2), 2L -> RoutingTable.roundRobin(4, 1))
  private val moved = RoutingTable.tabulate(4, 3, 1)(Vector(2, 1, 0, 1))

  val plan: Plan = Plan(
    "one",
    Map(0L -> Vector(Step(Vector(Move(0, 2), Move(1, 2)), 3), Step(Vector(Move(2, 1)), 3))),
    "fluid",
    TransferMode.Prepared
  )
  val other: Plan =
    Plan("two", Map(0L -> Vector(Step(Vector(Move(3, 0)), 3))), "as given", TransferMode.Direct)
  private val took =
    SealedStep(StepId("one", 0, 0), Vector(Move(0, 2)), Some("Executor b has no room."))

  val fresh: Protocol.State = state(Started("run", 0, 2, 4, groups, first))
  val moving: Protocol.State = state(
    Started("run", 0, 2, 4, groups, first),
    Submitted(plan),
    Submitted(other),
    Sealed("run", 5, Vector(took), Map(0L -> moved)),
    Cancelled("two", Some("Its worker is gone."))
  ).copy(decision =
    Some(Protocol.Decision(batchOf(5), Map.empty, Map.empty, Vector.empty, Vector.empty))
  )

  /** Worker 0 of the first group is known to have run on executor a. */
  val executorOf: (Long, Int) => Option[String] = (operator, worker) =>
    Option.when(operator == 0 && worker == 0)("a")

  val executor: ExecutorAddress = ExecutorAddress("a", "host", 1)

  /** Commits that have told of bins 0 and 2 of the first group. */
  def sized: RecentCommits = {
    val commits = new RecentCommits
    Seq(
      commit(0, "left", 0, 3) -> BinSizes(
        Array(0, 2),
        Array(1, 2),
        Array(10, 20),
        Array(100, 0),
        Array(3, 4)
      ),
      commit(1, "default", 0, 3) -> BinSizes(Array(0), Array(10), Array(100), Array(1000), Array(5))
    ).foreach { case (c, sizes) => commits.add(c.copy(sizes = Some(sizes))) }
    commits
  }

  def commit(operator: Long, store: String, worker: Int, batch: Long, keys: Long = 10): Committed =
    Committed(
      WorkerId(StoreId(operator, store).in("run"), worker),
      batch,
      executor,
      keys,
      liveBytes = 70,
      bytes = 100,
      new Arrivals
    )

  private def batchOf(number: Long) =
    Protocol.Batch(number, isOwn = true, Map.empty, Map.empty)
  private def state(records: LogRecord*): Protocol.State =
    Protocol.start("run", groups, Protocol.Settings()).copy(history = History.of(records))
}
