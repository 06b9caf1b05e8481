// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.runtime.Drain

/** A row of the table `drains`. */
final case class DrainRow(
    executor: String,
    cause: String,
    status: String,
    workers: Int,
    seconds: Long,
    reason: Option[String],
    release: Boolean
)

object DrainRow {
  val table: Table[DrainRow] = Table(
    "drains",
    "A row for each executor that was to be emptied, in the order in which that began: those " +
      "under way, and the newest 1,000 that ended.",
    Vector(
      Column.of("executor", Text, "Id of the executor.", _.executor),
      Column.of(
        "cause",
        Text,
        "Why: `asked`, or `decommissioned` if Spark says that it goes.",
        _.cause
      ),
      Column.of(
        "status",
        Text,
        "How far it is: `draining`; `drained` while nobody needs anything that is there, and if " +
          "the executor ended so; `overdue` if its time was up before; `cordoned` if it gets no " +
          "more tasks and is about to be ended; `released`, `lost` or `cancelled`.",
        _.status
      ),
      Column.of("workers", Int32, "Workers that are still to leave, of all queries.", _.workers),
      Column.of("seconds", Int64, "Seconds since it began.", _.seconds),
      Column.optional("reason", Text, "What it waits for.", _.reason),
      Column.of("release", Bool, "Whether it is ended once it is empty.", _.release)
    )
  )

  def of(drain: Drain): DrainRow =
    DrainRow(
      drain.executor,
      drain.cause.name,
      drain.status.name,
      drain.workers,
      drain.seconds,
      drain.reason,
      drain.release
    )
}
