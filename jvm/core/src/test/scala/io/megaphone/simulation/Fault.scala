// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

/** What may go wrong, and how often at the points where it may. A schedule turns each on or off, so
  * that rare ones also meet alone.
  */
sealed abstract class Fault(val chance: Double)

object Fault {

  /** A block cannot be put where others find it; is not to be had now; or arrives with a byte
    * changed or cut short.
    */
  case object BlockNotPut extends Fault(0.05)
  case object BlockMissing extends Fault(0.3)
  case object BlockDamaged extends Fault(0.15)

  /** A question to another executor, or its answer, is lost; comes late, while others go on; or
    * lacks something, or is the answer to another question.
    */
  case object AnswerMissing extends Fault(0.1)
  case object AnswerLate extends Fault(0.2)
  case object AnswerWrong extends Fault(0.05)

  /** An executor's memory, blocks and tasks are gone; or the driver only believes so, and its tasks
    * go on.
    */
  case object ExecutorDies extends Fault(0.01)
  case object ExecutorCutOff extends Fault(0.005)
  case object ExecutorJoins extends Fault(0.006)

  /** There is no room for a copy; there is never any on an executor; a batch has no room but that
    * of standbys.
    */
  case object ReplicaHasNoRoom extends Fault(0.1)
  case object ExecutorHasNoRoom extends Fault(0.15)
  case object BatchHasNoRoom extends Fault(0.01)

  /** An attempt fails; or is given up by the driver and goes on (a zombie); or hears of it too late
    * to be seen as killed.
    */
  case object TaskFails extends Fault(0.015)
  case object TaskGivenUp extends Fault(0.02)
  case object KillUnheard extends Fault(0.3)

  /** A file cannot be written; or is durable, and the writer hears that it is not. */
  case object FileFails extends Fault(0.02)
  case object FileUnsure extends Fault(0.02)

  /** A file cannot be read now. */
  case object FileUnreadable extends Fault(0.01)

  /** A task is sent where its worker is not wanted. */
  case object ElsewhereSent extends Fault(0.15)

  /** `foreachBatch` runs the stateful stage twice; a finished stage runs some tasks again. */
  case object TwoActions extends Fault(0.4)
  case object StageAgain extends Fault(0.05)

  /** A driver dies before or after a write; is paused and replaced; its append to the plan log is
    * durable, or not, and it hears nothing.
    */
  case object DriverDies extends Fault(0.02)
  case object DriverPauses extends Fault(0.006)
  case object AppendUnsure extends Fault(0.06)
  case object AppendFails extends Fault(0.03)

  /** A step cannot be carried out: nearly every run dies in its batch. */
  case object StepBreaks extends Fault(0.15)

  /** The query is stopped, its last batches are deleted from the checkpoint, and it starts again
    * from there.
    */
  case object GoesBack extends Fault(0.003)

  /** The query is stopped, and its plan log comes back without its last records, as of another
    * time; or a store that cannot refuse to replace a file loses the record of one of two drivers
    * that append the same number. From then on the query may end with a named error, and never give
    * a wrong answer.
    */
  case object PlanLogFromEarlier extends Fault(0.02)
  case object RecordReplaced extends Fault(0.5)

  /** A record of the plan log cannot be read now. */
  case object ReadUnsure extends Fault(0.4)

  /** An executor that is gone is still in Spark's list when a batch is planned. */
  case object ClusterStale extends Fault(0.3)

  /** An executor seems to be about to go: no worker is placed on it. Or it is, and ends. Or it gets
    * no tasks for a while.
    */
  case object ExecutorLeaves extends Fault(0.02)
  case object ExecutorDecommissioned extends Fault(0.005)
  case object ExecutorExcluded extends Fault(0.01)

  /** Messages between driver and executors are lost, late or repeated. A report may come after
    * later ones.
    */
  case object ReportLate extends Fault(0.2)
  case object MessageLost extends Fault(0.2)
  case object MessageLate extends Fault(0.3)
  case object MessageTwice extends Fault(0.2)

  val OfRoom: Set[Fault] = Set(ReplicaHasNoRoom, ExecutorHasNoRoom, BatchHasNoRoom)
  val DamagesLog: Set[Fault] = Set(PlanLogFromEarlier, RecordReplaced)

  val All: Vector[Fault] = Vector(
    BlockNotPut,
    BlockMissing,
    BlockDamaged,
    AnswerMissing,
    AnswerLate,
    AnswerWrong,
    ExecutorDies,
    ExecutorCutOff,
    ExecutorJoins,
    ReplicaHasNoRoom,
    ExecutorHasNoRoom,
    BatchHasNoRoom,
    TaskFails,
    TaskGivenUp,
    KillUnheard,
    FileFails,
    FileUnsure,
    FileUnreadable,
    ElsewhereSent,
    TwoActions,
    StageAgain,
    DriverDies,
    DriverPauses,
    AppendUnsure,
    AppendFails,
    StepBreaks,
    GoesBack,
    PlanLogFromEarlier,
    RecordReplaced,
    ReadUnsure,
    ClusterStale,
    ExecutorLeaves,
    ExecutorDecommissioned,
    ExecutorExcluded,
    ReportLate,
    MessageTwice,
    MessageLost,
    MessageLate
  )
}

/** The faults of one schedule. `quiet` stops them: any later error is no fault's doing. */
final class Faults(dice: Dice, enabled: Map[Fault, Double], trace: Trace) {
  var quiet = false

  /** How often each has struck. */
  var struck: Map[Fault, Long] = Map.empty

  def isFree: Boolean = enabled.isEmpty

  /** Whether a fault strikes now.
    *
    * @param canAct
    *   whether it would change anything: a fault that cannot act does not count
    */
  def strikes(fault: Fault, canAct: => Boolean = true): Boolean =
    !quiet && enabled.get(fault).exists { probability =>
      dice.chance(probability) && canAct && {
        struck = struck.updated(fault, struck.getOrElse(fault, 0L) + 1)
        trace(s"FAULT $fault")
        true
      }
    }
}

/** Thrown where a fault makes an operation fail. Never a sign of a bug. */
final class InjectedFault(what: String) extends RuntimeException(what)

/** The query ended with an error that names the damage done to its checkpoint: the right end of
  * such a schedule.
  */
final class Refused(cause: Throwable) extends RuntimeException(cause)

/** What no schedule may ever show. */
final class Violation(message: String, cause: Throwable = null)
    extends RuntimeException(message, cause)
