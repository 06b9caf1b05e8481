// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import java.nio.file.{Files => Disk, Path}

import io.megaphone.plan.{
  Group, Move, Operator, Plan, RoutingTable, SealedStep, Step, StepId, TransferMode
}

/** Records of a plan log, one of each kind and more, kept in the test resources
  * (`plan-log/v<version>/<number>`) so that what was once written stays readable.
  *
  * They were written once. A new format version gets new ones, by
  * {{{
  * ./sbt 'core/Test/runMain io.megaphone.checkpoint.planlog.SamplePlanLog <folder plan-log>'
  * }}}
  * (the folder is below `jvm/core/src/test/resources`), and the old ones stay. A file that is there
  * is never replaced: delete it first, if its version was never released.
  */
object SamplePlanLog {
  private val table = RoutingTable.roundRobin(16, 3)
  private val groups = Vector(
    Group(
      Vector(
        Operator(0, "dedupe", Vector("default")),
        Operator(1, "symmetricHashJoin", Vector("left", "right"))
      ),
      3
    ),
    Group(
      Vector(
        Operator(2, "transformWithStateExec", Vector("default"), Vector("count", "$ttl_count"))
      ),
      1,
      isMovable = false
    )
  )

  private val started = LogRecord
    .Started("run", 0, 2, 16, groups, Map(0L -> table, 2L -> RoutingTable.roundRobin(16, 1)))
  private val plan = Plan(
    "p1",
    Map(0L -> Vector(Step(Vector(Move(3, 1), Move(4, 2)), 3), Step(Vector.empty, 5))),
    "batched(2)",
    TransferMode.Prepared
  )
  private def seal(batch: Long, index: Int) = LogRecord.Sealed(
    "run",
    batch,
    Vector(SealedStep(StepId("p1", 0, index), plan.steps(0)(index).moves)),
    Map(0L -> table.moved(plan.steps(0)(index).moves, batch, 5))
  )

  private lazy val onDemand = plan.copy(id = "p3", mode = TransferMode.OnDemand)
  private lazy val completed = LogRecord
    .Sealed("run", 12, Vector.empty, Map(0L -> table), completed = Vector(StepId("p3", 0, 0)))

  val records: Vector[LogRecord] = Vector(
    started,
    LogRecord.Submitted(plan),
    LogRecord.Submitted(Plan("p2", Map.empty, "fluid", TransferMode.Direct)),
    LogRecord.Cancelled("p1"),
    LogRecord.Cancelled("p2", Some("no room")),
    LogRecord.Sealed(
      "run",
      1L << 40,
      Vector(
        SealedStep(StepId("p1", 0, 7), Vector(Move(3, 1))),
        SealedStep(StepId("p2", 2, 0), Vector.empty, Some("no room"))
      ),
      Map(0L -> table.moved(Vector(Move(3, 1)), 9, 3))
    ),
    LogRecord.Sealed("", 0, Vector.empty, Map.empty),
    started.copy(firstBatch = 9, verdict = Verdict.TakesBack("never committed")),
    started.copy(firstBatch = 10, verdict = Verdict.Restores),
    LogRecord.Trimmed("run", History.Empty.trimmed(0)),
    LogRecord.Trimmed("run", trimmed),
    LogRecord.Submitted(onDemand),
    completed,
    LogRecord.Trimmed("run", arrived)
  )

  /** A plan of two steps, the second of which was taken back, and a plan that a user has ended. */
  private def trimmed: History = History
    .of(
      Vector(
        started,
        LogRecord.Submitted(plan),
        LogRecord.Submitted(Plan("p2", Map.empty, "fluid", TransferMode.Direct)),
        LogRecord.Cancelled("p2"),
        seal(3, 0),
        seal(8, 1),
        started.copy(run = "again", firstBatch = 8),
        started.copy(firstBatch = 8, verdict = Verdict.TakesBack("never committed"))
      )
    )
    .trimmed(5)

  /** A plan on demand, one of whose two steps is complete. */
  private def arrived: History = History
    .of(
      Vector(
        started,
        LogRecord.Submitted(onDemand),
        seal(9, 0).copy(steps = seal(9, 0).steps.map(_.copy(step = StepId("p3", 0, 0)))),
        seal(10, 1).copy(steps = seal(10, 1).steps.map(_.copy(step = StepId("p3", 0, 1)))),
        completed
      )
    )
    .trimmed(5)

  /** Writes the records in today's format version, below a folder. */
  def main(args: Array[String]): Unit = {
    val folder = Path
      .of(args.headOption.getOrElse(sys.error("Give the folder plan-log/ of the test resources.")))
      .resolve(s"v${LogRecordFormat.FormatVersion}")
    Disk.createDirectories(folder)
    for ((record, number) <- records.zipWithIndex; file = folder.resolve(number.toString))
      if (Disk.exists(file)) println(s"$file is there: it stays as it is.")
      else Disk.write(file, LogRecordFormat.encode(record))
  }
}
