// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import org.scalatest.Assertions

import io.megaphone.checkpoint.planlog.{History, LogRecord}
import io.megaphone.format.{ExecutorAddress, StoreId}
import io.megaphone.plan.{Group, Move, Operator, Plan, Step, StepId, TransferMode}
import io.megaphone.state.ReplicaKey

/** The driver's state machine, event by event. A [[Run]] is the driver around it: it appends to a
  * log that several runs may share.
  */
trait ProtocolRun extends Assertions {
  import Protocol._

  protected val group = Group(Vector(Operator(0, "aggregate", Vector("default"))), 2)
  protected val settings =
    Settings(windowSteps = 2, windowBytes = 1000, patienceBatches = 4, gapBatches = 3)

  protected val executors = Vector("a", "b", "c", "d")
  protected val small = Map((0L, 0) -> 8L, (0L, 1) -> 8L) // bytes of state

  final protected class Log { var records = Vector.empty[LogRecord] }

  final protected class Run(run: String, log: Log, groups: Vector[Group] = Vector(group)) {
    var state: State = Protocol.start(run, groups, settings)
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
        stateBytes: Map[(Long, Int), Long] = small,
        imageBytesMax: Long = Long.MaxValue
    ): Decision = {
      val batch = Batch(number, isOwn, Map.empty, groups.map(_.id -> placement).toMap, stateBytes)
      feed(BatchPlanning(batch.copy(imageBytesMax = imageBytesMax)))
      assert(failure.isEmpty)
      state.decision.get
    }

    def submit(id: String, mode: TransferMode, steps: Step*): this.type =
      submitTo(0, id, mode, steps: _*)
    def submitTo(group: Long, id: String, mode: TransferMode, steps: Step*): this.type = feed(
      PlanSubmitted(Plan(id, Map(group -> steps.toVector), "fluid", mode))
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

  protected def newRun: Run = newRun(new Log)
  protected def newRun(log: Log): Run = { val r = new Run("r", log).start(0); r.plan(0); r }
  protected def sealedIn(d: Decision): Vector[String] = d.sealedSteps.map(_.id.toString)
  protected def announcedIn(d: Decision): Vector[String] = d.announced.map(_.id.toString)
  protected def dutiesOf(run: Run) =
    Duties(run.state, id => Some(ExecutorAddress(id, "host", 1)), (_, _) => Some(80))
  protected val moveOne = Step(Vector(Move(0, 1)), 2)
  protected val moveTwo = Step(Vector(Move(2, 1)), 2)
}
