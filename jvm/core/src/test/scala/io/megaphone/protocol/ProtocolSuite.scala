// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import scala.collection.immutable.ArraySeq

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.planlog.{History, LogRecord}
import io.megaphone.checkpoint.planlog.LogRecord._
import io.megaphone.format.{ExecutorAddress, StateName, StoreId}
import io.megaphone.plan.{
  Group, Move, Operator, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode
}
import io.megaphone.state.ReplicaKey

/** The driver's state machine, event by event. A [[Run]] is the driver around it: it appends to a
  * log that several runs may share.
  */
class ProtocolSuite extends AnyFunSuite {
  import Protocol._

  private val group = Group(Vector(Operator(0, "aggregate", Vector("default"))), 2)
  private val settings =
    Settings(windowSteps = 2, windowBytes = 1000, patienceBatches = 4, gapBatches = 3)

  private val executors = Vector("a", "b", "c", "d")
  private val small = Map((0L, 0) -> 8L, (0L, 1) -> 8L) // bytes of state

  final private class Log { var records = Vector.empty[LogRecord] }

  final private class Run(run: String, log: Log) {
    var state: State = Protocol.start(run, Vector(group), settings)
    var failure: Option[String] = None
    var isAppendUnsure = false

    def start(batch: Long, history: History = History.of(log.records)): this.type = feed(
      RunStarting(batch, 1, 8, history)
    )

    def feed(event: Event): this.type = {
      val (next, commands) = Protocol(state, event)
      state = next
      commands.foreach {
        case Append(record) =>
          val number = state.history.nextNumber.toInt
          if (number < log.records.size) feed(NumberTaken(record, log.records(number)))
          else {
            log.records :+= record
            feed(if (isAppendUnsure) NotConfirmed(record) else Appended(record))
          }
        case HandOut(_) => ()
        case Fail(reason) => failure = Some(reason)
      }
      this
    }

    def plan(
        number: Long,
        isOwn: Boolean = true,
        placement: Vector[String] = executors,
        stateBytes: Map[(Long, Int), Long] = small
    ): Decision = {
      feed(BatchPlanning(Batch(number, isOwn, Map.empty, Map(0L -> placement), stateBytes)))
      assert(failure.isEmpty)
      state.decision.get
    }

    def submit(id: String, mode: TransferMode, steps: Step*): this.type = feed(
      PlanSubmitted(Plan(id, Map(0L -> steps.toVector), "fluid", mode))
    )
    def ready(step: Int, source: Int, target: Int, version: Long, plan: String = "p"): this.type =
      report(StepId(plan, 0, step), source, target, ReplicaState.Ready(version, executors(target)))

    def refused(step: Int, source: Int, target: Int): this.type =
      report(StepId("p", 0, step), source, target, ReplicaState.Refused("full", executors(target)))

    def surveyed(step: Int, source: Int, target: Int, on: String): this.type =
      report(StepId("p", 0, step), source, target, ReplicaState.Surveyed(on))

    def report(step: StepId, source: Int, target: Int, state: ReplicaState): this.type = {
      val key = ReplicaKey.forStep(StoreId(0, "default").in(run), source, target, step)
      feed(ReplicaReported(key, step, state))
    }
  }

  private def newRun: Run = { val r = new Run("r", new Log).start(0); r.plan(0); r }
  private def sealedIn(d: Decision): Vector[String] = d.sealedSteps.map(_.id.toString)
  private def announcedIn(d: Decision): Vector[String] = d.announced.map(_.id.toString)
  private def dutiesOf(run: Run) =
    Duties(run.state, id => Some(ExecutorAddress(id, "host", 1)))
  private val moveOne = Step(Vector(Move(0, 1)), 2)
  private val moveTwo = Step(Vector(Move(2, 1)), 2)

  test("a direct plan is announced by one batch, and its steps are sealed by the next ones") {
    val run = newRun.submit("p", TransferMode.Direct, moveOne, moveTwo)
    val one = run.plan(1)
    assert(sealedIn(one).isEmpty && announcedIn(one) == Vector("p.0.0") && one.after == one.before)
    val two = run.plan(2)
    assert(
      sealedIn(two) == Vector("p.0.0") && announcedIn(two) == Vector("p.0.1") && two
        .after(0)
        .workerOf(0) == 1 && two.before(0).workerOf(0) == 0
    )
    val three = run.plan(3)
    assert(
      sealedIn(three) == Vector("p.0.1") && announcedIn(three).isEmpty && three.before == two.after
    )
    val four = run.plan(4)
    assert(sealedIn(four).isEmpty && run.state.history.open.isEmpty)
    assert(four.before == three.after && four.after == three.after)
    assert(Duties.liveSteps(run.state).isEmpty)
  }

  private val store = StoreId(0, "default")
  private def incompleteIn(d: Decision) = d.incomplete(0).toVector.sorted

  test("a step on demand waits until its sources have surveyed what it takes, not for ever") {
    def begun = {
      val run = newRun.submit("p", TransferMode.OnDemand, Step(Vector(Move(0, 1), Move(1, 0)), 2))
      assert(announcedIn(run.plan(1)) == Vector("p.0.0"))
      run
    }
    val run = begun.surveyed(0, 0, 1, on = "a").surveyed(0, 1, 0, on = "a")
    assert(sealedIn(run.plan(2)).isEmpty, "worker 1 is placed on b")
    run.surveyed(0, 1, 0, on = "b")
    assert(sealedIn(run.plan(3)) == Vector("p.0.0"))
    val atOnce = begun.surveyed(0, 0, 1, on = "a").surveyed(0, 1, 0, on = "b")
    assert(sealedIn(atOnce.plan(2)) == Vector("p.0.0"), "a small state costs no batch")
    val silent = begun
    assert((2 to 5).map(n => sealedIn(silent.plan(n.toLong)).size) == Seq(0, 0, 0, 1))
    val slow = begun
    slow.plan(2)
    slow.feed(CopiesProgressed)
    assert((3 to 6).map(n => sealedIn(slow.plan(n.toLong)).size) == Seq(0, 0, 0, 1))
    val lost = begun.surveyed(0, 0, 1, on = "a").surveyed(0, 1, 0, on = "b")
    lost.feed(ExecutorLost("a"))
    assert(sealedIn(lost.plan(2)).isEmpty)
  }

  test("a step on demand is complete once its workers have all") {
    val run = newRun.submit("p", TransferMode.OnDemand, moveOne, Step(Vector(Move(0, 0)), 2))
    assert(announcedIn(run.plan(1)) == Vector("p.0.0"))
    assert(sealedIn(run.plan(2)).isEmpty)
    val taken = run.surveyed(0, 0, 1, on = "a").plan(3)
    assert(sealedIn(taken) == Vector("p.0.0") && incompleteIn(taken) == Vector(0))
    def live = Duties.liveSteps(run.state).map(_.toString)
    val going = (4 to 9).map(n => run.plan(n.toLong))
    assert(
      going.forall(d => incompleteIn(d) == Vector(0) && sealedIn(d).isEmpty),
      "it may not move"
    )
    assert(live("p.0.0"))
    run.feed(WorkerWhole(store, 1, version = 3)) // of before the step
    assert(live("p.0.0") && incompleteIn(run.plan(10)) == Vector(0))
    run.feed(WorkerWhole(store, 1, version = 10))
    assert(!live("p.0.0"), "nobody asks its sources any more")
    assert(run.state.history.incompleteAt(0, 10).nonEmpty, "a fact of the batch's plan")
    val complete = run.plan(11)
    assert(incompleteIn(complete).isEmpty)
    assert(run.state.history.sealAt(11).exists(_.completed == Vector(StepId("p", 0, 0))))
    run.surveyed(1, 1, 0, on = "b")
    assert(sealedIn(run.plan(12)) == Vector("p.0.1"), "and it may move")
    assert(run.state.history.trimmed(13).incompleteAt(0, 13).map(_.step.index) == Vector(1))
  }

  test("the window bounds the steps on demand that are incomplete at once") {
    val steps = Vector(0, 2, 4).map(bin => Step(Vector(Move(bin, 1)), 2))
    val run = newRun.submit("p", TransferMode.OnDemand, steps: _*)
    run.plan(1)
    def sealedAt(batch: Int) = {
      (0 to 2).foreach(run.surveyed(_, 0, 1, on = "a"))
      sealedIn(run.plan(batch.toLong))
    }
    assert((2 to 12).flatMap(sealedAt) == Vector("p.0.0", "p.0.1"))
    run.feed(WorkerWhole(store, 1, version = 12))
    assert((13 to 15).flatMap(sealedAt) == Vector("p.0.2"))
  }

  test(
    "what a run left incomplete is complete from the first batch that the next one logs itself"
  ) {
    for (isOwn <- Seq(true, false)) {
      val log = new Log
      val run = new Run("r", log).start(0)
      (0 to 1).foreach(n => run.plan(n.toLong))
      run.submit("p", TransferMode.OnDemand, moveOne)
      run.plan(2)
      run.surveyed(0, 0, 1, on = "a")
      (3 to 5).foreach(n => run.plan(n.toLong))
      assert(run.state.history.incompleteAt(0, 5).nonEmpty)
      val next = new Run("again", log).start(6)
      val first = next.plan(6, isOwn = isOwn)
      assert(incompleteIn(first) == (if (isOwn) Vector.empty else Vector(0)))
      if (!isOwn) {
        next.feed(WorkerWhole(store, 1, version = 7))
        assert(incompleteIn(next.plan(7)).isEmpty)
      }
      val later = new Run("third", log).start(8)
      assert(incompleteIn(later.plan(8)).isEmpty)
    }
  }

  test("a prepared step waits for its copies, which must be of one of the last versions") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    run.plan(1)
    val (executor, duty) = dutiesOf(run).head
    assert(
      executor == "b" && duty.bins == Vector(0) && duty.image == StateName(
        1,
        StateName.FixedId
      ) && duty.address.contains(ExecutorAddress("a", "host", 1))
    )
    assert(sealedIn(run.plan(2)).isEmpty)
    assert(dutiesOf(run).map(_._2.settled.version) == Vector(2L))
    run.ready(0, 0, 1, version = 1)
    assert(sealedIn(run.plan(3)) == Vector("p.0.0"))

    val late = newRun.submit("p", TransferMode.Prepared, moveOne)
    late.plan(1)
    late.ready(0, 0, 1, version = 1)
    late.plan(2, isOwn = false)
    late.plan(3, isOwn = false)
    assert(sealedIn(late.plan(4)).isEmpty, "the copy is three versions old")
  }

  test("a copy that went with its executor is ready no more") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    run.plan(1)
    run.ready(0, 0, 1, version = 1).feed(ExecutorLost("b"))
    assert(sealedIn(run.plan(2)).isEmpty)
  }

  test("patience: a step whose copies do not get ready is sealed all the same") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    assert((1L to 6L).map(n => sealedIn(run.plan(n)).size) == Vector(0, 0, 0, 0, 1, 0))
  }

  test("patience: a step waits as long as copies progress, and no longer") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    val sealedAt = (1L to 12L).filter { n =>
      val isSealed = sealedIn(run.plan(n)).nonEmpty
      if (n <= 6) run.feed(CopiesProgressed)
      isSealed
    }
    assert(sealedAt == Seq(10))
  }

  test("the steps that are announced at once move so many bytes at most, or are one step") {
    def announced(stateBytes: Long) = {
      val run = newRun.submit("p", TransferMode.Prepared, moveOne, moveTwo)
      run.plan(1, stateBytes = Map((0L, 0) -> stateBytes)) // of four bins
      (run, announcedIn(run.state.decision.get))
    }
    assert(announced(4 * 500)._2 == Vector("p.0.0", "p.0.1"))
    assert(announced(4 * 501)._2 == Vector("p.0.0"))
    assert(announced(1 << 20)._2 == Vector("p.0.0"))
    val unknown = newRun.submit("p", TransferMode.Prepared, moveOne, moveTwo)
    assert(announcedIn(unknown.plan(1, stateBytes = Map((0L, 1) -> 4L))) == Vector("p.0.0"))
    assert(announcedIn(unknown.plan(2)) == Vector("p.0.0", "p.0.1"), "now it is known")
    val (run, _) = announced(4 * 500)
    run.plan(2, stateBytes = Map((0L, 0) -> (1 << 20)))
    assert(announcedIn(run.state.decision.get) == Vector("p.0.0", "p.0.1"), "both go on")
  }

  test("what an executor reports that is not the target any more does not count") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    run.plan(1)
    run.ready(0, 0, 1, version = 1)
    assert(sealedIn(run.plan(2, placement = Vector("a", "c"))).isEmpty, "b had it, and c has not")
    val refused = newRun.submit("p", TransferMode.Prepared, moveOne)
    refused.plan(1)
    refused.refused(0, 0, 1)
    val over = (2L to 5L).map(n => refused.plan(n, placement = Vector("a", "c"))).last
    assert(over.sealedSteps.flatMap(_.step.moves) == Vector(Move(0, 1)), "c may have room")
  }

  private val noRoomAtOne = "Executor b has no room for the bins that are to move to worker 1: full"

  test(
    "no room: a step whose patience is over goes on without the refused moves, and says why"
  ) {
    val run = newRun.submit("p", TransferMode.Prepared, Step(Vector(Move(0, 1), Move(1, 0)), 2))
    run.plan(1)
    run.refused(0, 0, 1).ready(0, 1, 0, version = 4)
    assert((2L to 4L).forall(n => sealedIn(run.plan(n)).isEmpty))
    val step = run.plan(5)
    assert(
      Vector(0, 1).map(step.after(0).workerOf) == Vector(0, 0) && run.state.history.open.isEmpty
    )
    assert(
      run.state.history.taken("p") == Vector(
        5L -> SealedStep(StepId("p", 0, 0), Vector(Move(1, 0)), Some(noRoomAtOne))
      )
    )
  }

  test(
    "no room: a plan waits once for a target, and a later step that finds room there is taken whole"
  ) {
    val moveThree = Step(Vector(Move(4, 1)), 2)
    val run = newRun.submit("p", TransferMode.Prepared, moveOne, moveTwo, moveThree)
    run.plan(1)
    run.refused(0, 0, 1)
    assert((2L to 5L).map(n => sealedIn(run.plan(n)).size) == Vector(0, 0, 0, 1))
    run.refused(1, 0, 1).refused(2, 0, 1)
    assert(sealedIn(run.plan(6)) == Vector("p.0.1"), "its patience is not over, and need not be")
    run.ready(2, 0, 1, version = 6)
    val last = run.plan(7)
    assert(
      sealedIn(last) == Vector("p.0.2") && Vector(0, 2, 4)
        .map(last.after(0).workerOf) == Vector(0, 0, 1) && run.state.history.open.isEmpty
    )
  }

  test(
    "no room: a worker that was to go and keeps bins ends the plan with the reason, soon or late"
  ) {
    for (
      steps <- Seq(
        Vector(Step(Vector(Move(1, 0), Move(3, 0), Move(5, 0), Move(7, 0)), 1)),
        Vector(1, 3, 5, 7).map(b => Step(Vector(Move(b, 0)), if (b < 7) 2 else 1))
      )
    ) {
      val run = newRun.submit("p", TransferMode.Prepared, steps: _*)
      run.plan(1)
      run.refused(0, 1, 0)
      val taken = (2L to 20L).flatMap(n => sealedIn(run.plan(n)))
      assert(
        taken == steps.indices.init
          .map(i => s"p.0.$i") && run.state.history.tableAt(0, 20).workers == 2
      )
      val reason = run.state.history.end("p").flatMap(_.reason).get
      assert(
        reason.startsWith("Workers that were to go have bins left") && reason.endsWith(
          "to worker 0: full"
        ) && run.state.history.open.isEmpty
      )
    }
  }

  test("no room: what has come to be, on this executor or another, is forgotten") {
    val step = StepId("p", 0, 0)
    val key = ReplicaKey.forStep(StoreId(0, "default").in("r"), 0, 1, step)
    def reported(state: ReplicaState) = ReplicaReported(key, step, state)
    for (
      (relief, batch) <- Seq(ExecutorLost("b") -> 5L, reported(ReplicaState.Ready(0, "b")) -> 2L)
    ) {
      val run = newRun.submit("p", TransferMode.Prepared, moveOne)
      run.plan(1)
      run.feed(reported(ReplicaState.Refused("full", "b"))).feed(relief)
      assert((2L to 5L).filter(n => sealedIn(run.plan(n)).nonEmpty) == Seq(batch))
    }
  }

  test("moves on one executor need no copy") {
    val run = newRun.submit("p", TransferMode.Prepared, moveOne)
    val here = Vector("a", "a")
    run.plan(1, placement = here)
    assert(dutiesOf(run).isEmpty && sealedIn(run.plan(2, placement = here)) == Vector("p.0.0"))
  }

  test(
    "a step's routes: none to an executor with the source's state, all if none is known"
  ) {
    val table = RoutingTable.roundRobin(8, 4)
    val step = Step(Vector(Move(0, 1), Move(4, 1), Move(1, 2), Move(2, 2), Move(3, 0)), 4)
    val all =
      Vector(Route(0, 1, ArraySeq(0, 4)), Route(1, 2, ArraySeq(1)), Route(3, 0, ArraySeq(3)))
    assert(Route.of(step, table, Whereabouts(Vector("a", "a", "b", "b"))) == all.drop(1))
    assert(Route.of(step, table, Whereabouts(Vector("a", "a", "a", "a"))).isEmpty)
    assert(Route.of(step, table, Whereabouts(Vector.empty)) == all)
    val standbys = Vector(Set("b"), Set("a"), Set("a"))
    val where = Whereabouts(Vector("a", "b", "c", "b"), standbys)
    assert(Route.of(step, table, where) == all.drop(1), "b stands by for worker 0")
  }

  test("the window bounds what is announced at once") {
    val steps = Vector(0, 2, 4, 6).map(bin => Step(Vector(Move(bin, 1)), 2))
    val run = newRun.submit("p", TransferMode.Prepared, steps: _*)
    assert(announcedIn(run.plan(1)) == Vector("p.0.0", "p.0.1"))
  }

  test("the gap: a bin moves again only some batches later") {
    val run = newRun.submit("p", TransferMode.Direct, moveOne, Step(Vector(Move(0, 0)), 2))
    assert((1L to 6L).filter(n => run.plan(n).sealedSteps.nonEmpty) == Vector(2L, 5L))
  }

  test("cancel: what is sealed stays, the rest is never sealed, and no duty is left") {
    val run = newRun.submit("p", TransferMode.Direct, moveOne, moveTwo)
    run.plan(1)
    val two = run.plan(2)
    run.feed(PlanCancelled("p"))
    val three = run.plan(3)
    assert(sealedIn(three).isEmpty && announcedIn(three).isEmpty && three.after == two.after)
  }

  test("rule 5: a batch that is planned twice gets the same decision, whatever happened between") {
    val run = newRun.submit("p", TransferMode.Direct, moveOne)
    run.plan(1)
    val first = run.plan(2)
    run.submit("q", TransferMode.Direct, moveTwo).feed(PlanCancelled("p"))
    assert(run.plan(2) eq first)
  }

  test(
    "a run's first batch takes a step that was not announced; a replayed first batch takes none"
  ) {
    val log = new Log
    val before = new Run("r", log).start(0)
    before.plan(0)
    before.submit("p", TransferMode.Prepared, moveOne)
    val own = new Run("s", log).start(1)
    assert(sealedIn(own.plan(1)) == Vector("p.0.0"))

    val other = new Log
    val crashed = new Run("r", other).start(0)
    crashed.plan(0)
    crashed.submit("p", TransferMode.Prepared, moveOne)
    val replay = new Run("s", other).start(1)
    assert(sealedIn(replay.plan(1, isOwn = false)).isEmpty)
  }

  test("a replay goes by the seal of its batch, and does not count the step twice") {
    val log = new Log
    val run = new Run("r", log).start(0)
    run.plan(0)
    run.submit("p", TransferMode.Direct, moveOne, moveTwo)
    run.plan(1)
    val ran = run.plan(2)
    val replay = new Run("s", log).start(2)
    val again = replay.plan(2, isOwn = false)
    assert(again.before == ran.before && again.after == ran.after && again.sealedSteps.isEmpty)
    assert(announcedIn(again) == Vector("p.0.1"))
    assert(replay.plan(3).after(0).workerOf(2) == 1)
  }

  test("H6: a seal whose number is taken fails the batch") {
    val log = new Log
    val paused = new Run("r", log).start(0)
    paused.plan(0)
    paused.submit("p", TransferMode.Direct, moveOne)
    paused.plan(1)
    new Run("s", log).start(1)
    paused.feed(BatchPlanning(Batch(2, isOwn = true, Map.empty, Map.empty)))
    assert(
      paused.failure.exists(_.contains("Batch 2")) && !log.records.exists(_.isInstanceOf[Sealed])
    )
  }

  test("H6: a seal that may be written or not fails the batch, and the replay goes by it") {
    val log = new Log
    val run = new Run("r", log).start(0)
    run.plan(0)
    run.submit("p", TransferMode.Direct, moveOne)
    run.plan(1)
    run.isAppendUnsure = true
    run.feed(BatchPlanning(Batch(2, isOwn = true, Map.empty, Map(0L -> Vector("a", "b")))))
    assert(run.failure.isDefined)
    assert(new Run("s", log).start(2).plan(2, isOwn = false).after(0).workerOf(0) == 1)
  }

  test("a start record whose number is taken by an older run's record reads on") {
    val log = new Log
    val old = new Run("r", log).start(0)
    old.plan(0)
    val seen = History.of(log.records)
    old.submit("p", TransferMode.Direct, moveOne)
    val run = new Run("s", log).start(1, seen)
    assert(run.failure.isEmpty && log.records.last == run.state.history.last.get)
    assert(run.state.history.open.map(_.id) == Vector("p"))
  }

  test(
    "H6: a run gives up if a newer run, or one that is ahead, has taken its start record's number"
  ) {
    val log = new Log
    val old = new Run("r", log).start(0)
    old.plan(0)
    val seen = History.of(log.records)
    old.submit("p", TransferMode.Direct, moveOne)
    old.plan(1)
    old.plan(2)
    assert(new Run("s", log).start(1, seen).failure.exists(_.contains("batch 2")))
    new Run("t", log).start(2)
    assert(
      new Run("u", log).start(2, History.of(log.records.init)).failure.exists(_.contains("run t"))
    )
    assert(log.records.count(_.isInstanceOf[Started]) == 2)
  }

  test(
    "rule 6: a first batch that another run has started from since takes no step"
  ) {
    val log = new Log
    val old = new Run("r", log).start(0)
    old.plan(0)
    old.submit("p", TransferMode.Direct, moveOne)
    val newer = new Run("s", log).start(1)
    val without = newer.plan(1, isOwn = false)
    val late = new Run("t", log).start(1)
    assert(late.plan(1, isOwn = true).after == without.after)
  }

  test(
    "H8: after going back a plan goes on from its valid seals; one that no longer fits is cancelled"
  ) {
    val log = new Log
    val run = new Run("r", log).start(0)
    run.plan(0)
    run.submit(
      "empty",
      TransferMode.Direct,
      Step(Vector(Move(1, 0), Move(3, 0)), 2),
      Step(Vector(Move(1, 1)), 2)
    )
    run.plan(1)
    run.plan(2)
    run.feed(PlanCancelled("empty"))
    run.submit("shrink", TransferMode.Direct, Step(Vector(Move(5, 0), Move(7, 0)), 1))
    val back = new Run("s", log).start(1)
    val one = back.plan(1)
    assert(
      one.after(0) == RoutingTable.roundRobin(
        8,
        2
      ) && back.state.history.open.isEmpty && log.records.last == Cancelled(
        "shrink",
        Some(Planning.Misfit)
      )
    )
    assert(back.plan(2).after == one.after)
  }

  test("plans that going back has opened again run one after the other") {
    val log = new Log
    val run = new Run("r", log).start(0)
    run.plan(0)
    run.submit("grow", TransferMode.Direct, Step(Vector(Move(0, 2)), 3))
    run.plan(1)
    run.plan(2)
    run.submit("onto", TransferMode.Direct, Step(Vector(Move(1, 2)), 3))
    run.plan(3)
    run.plan(4)
    val back = new Run("s", log).start(1)
    assert(
      (1L to 4L).map(n => sealedIn(back.plan(n, isOwn = n > 1))) == Vector(
        Vector(),
        Vector("grow.0.0"),
        Vector("onto.0.0"),
        Vector()
      )
    )
  }
}
