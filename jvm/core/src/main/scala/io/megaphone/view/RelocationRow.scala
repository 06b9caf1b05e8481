// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.placement.Seat
import io.megaphone.runtime.Relocation

/** A row of the table `relocations`. */
final case class RelocationRow(
    id: Long,
    operator: Long,
    worker: Int,
    source: String,
    target: String,
    why: String,
    status: String,
    bytes: Option[Long],
    bytesReady: Option[Long],
    batch: Option[Long],
    reason: Option[String]
)

object RelocationRow {
  val table: Table[RelocationRow] = Table(
    "relocations",
    "A row for each worker that was to go to another executor, in the order in which that began: " +
      "those under way, and the newest 1,000 that ended. Of this run only.",
    Vector(
      Column.of("id", Int64, "Number of the relocation in the run, from 1.", _.id),
      Column.ofGroup(_.operator),
      Column.of("worker", Int32, "Number of the worker.", _.worker),
      Column.of("source", Text, "Id of the executor that it was placed on.", _.source),
      Column.of("target", Text, "Id of the executor that it was to go to.", _.target),
      Column.of(
        "why",
        Text,
        "The cause: `drain`, also if Spark decommissions or excludes the source; `spread`; or " +
          "`place` if a user named the executor.",
        _.why
      ),
      Column.of(
        "status",
        Text,
        "How far it is: `making` while its state is copied, `taken` once a batch has placed it " +
          "on the target, then `done`, `failed` or `cancelled`.",
        _.status
      ),
      Column.optional("bytes", Int64, "Bytes of its live records, if known.", _.bytes),
      Column.optional(
        "bytes_ready",
        Int64,
        "Those of them that are on the target, if known: by the bins that it has reported.",
        _.bytesReady
      ),
      Column.optional("batch", Int64, "The batch that placed it on the target.", _.batch),
      Column.optional("reason", Text, "Why it failed.", _.reason)
    )
  )

  /** The row of a relocation.
    *
    * @param bytesOf
    *   bytes of the live records of a worker, if they are known
    * @param bytesReady
    *   those of them that are on an executor which stands by, if they are known
    */
  def of(
      r: Relocation,
      bytesOf: Seat => Option[Long],
      bytesReady: (Seat, String) => Option[Long]
  ): RelocationRow = RelocationRow(
    r.id,
    r.seat.group,
    r.seat.worker,
    r.from,
    r.to,
    r.why.name,
    r.status,
    bytesOf(r.seat),
    if (r.isOpen) bytesReady(r.seat, r.to) else bytesOf(r.seat).filter(_ => r.isDone),
    r.taken,
    r.reason
  )
}
