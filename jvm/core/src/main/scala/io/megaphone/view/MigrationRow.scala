// SPDX-License-Identifier: Apache-2.0
package io.megaphone.view

import io.megaphone.runtime.Committed

/** A row of the table `migrations`. */
final case class MigrationRow(
    batch: Long,
    operator: Long,
    store: String,
    worker: Int,
    executor: String,
    binsIn: Int,
    binsRelabelled: Int,
    binsFromPeer: Int,
    binsFromCheckpoint: Int,
    bytesFromPeer: Long,
    bytesFromCheckpoint: Long,
    waitMs: Long,
    isRecovery: Boolean,
    subBins: Int,
    questions: Int,
    binsIncomplete: Int,
    bytesToCome: Long
)

object MigrationRow {
  val table: Table[MigrationRow] = Table(
    "migrations",
    "A row for each batch, store and worker that bins moved into, that brought some of what a " +
      "step on demand had left elsewhere, that was recovered, or that read what was newer than " +
      "the state its executor had, as that of a standby; the newest of this run.",
    Vector(
      Column.of("batch", Int64, "The batch at which the bins arrived.", _.batch),
      Column.of("operator", Int64, "Id of the stateful operator.", _.operator),
      Column.of("store", Text, "Name of the operator's store.", _.store),
      Column.of("worker", Int32, "The worker that the bins moved into.", _.worker),
      Column.of("executor", Text, "Id of the executor that it ran on.", _.executor),
      Column.of("bins_in", Int32, "Number of bins that moved in.", _.binsIn),
      Column.of(
        "bins_relabelled",
        Int32,
        "Bins that came from another worker of the same executor, and were not copied.",
        _.binsRelabelled
      ),
      Column.of(
        "bins_from_peer",
        Int32,
        "Bins that came from another executor, or from a replica that had been prepared, also " +
          "from files; the bytes tell from where.",
        _.binsFromPeer
      ),
      Column.of(
        "bins_from_checkpoint",
        Int32,
        "Bins that the batch read from files of the checkpoint.",
        _.binsFromCheckpoint
      ),
      Column.of(
        "bytes_from_peer",
        Int64,
        "Bytes received from other executors for all of them, also before the batch.",
        _.bytesFromPeer
      ),
      Column.of(
        "bytes_from_checkpoint",
        Int64,
        "Bytes read from files for all of them, also before the batch.",
        _.bytesFromCheckpoint
      ),
      Column.of("wait_ms", Int64, "How long the batch waited for the bins.", _.waitMs),
      Column.of(
        "is_recovery",
        Bool,
        "Whether the worker's own bins were read from files, as after the loss of an executor.",
        _.isRecovery
      ),
      Column.of(
        "sub_bins",
        Int32,
        "Sub-bins of incomplete bins that the batch needed and brought from other executors.",
        _.subBins
      ),
      Column.of(
        "questions",
        Int32,
        "Questions about these that other executors answered: those asked at once share a " +
          "round trip.",
        _.questions
      ),
      Column.of(
        "bins_incomplete",
        Int32,
        "Bins of the worker of which something was elsewhere after the batch.",
        _.binsIncomplete
      ),
      Column.bytesToCome(_.bytesToCome)
    )
  )

  /** The rows of a run, from the commits that its tasks reported, in their order. */
  def of(commits: Vector[Committed]): Vector[MigrationRow] = for {
    c <- commits
    arrivals = c.arrivals if arrivals.isNews
  } yield MigrationRow(
    c.batch,
    c.worker.store.id.operator,
    c.worker.store.id.store,
    c.worker.worker,
    c.executor.id,
    arrivals.binsIn,
    arrivals.binsRelabelled,
    arrivals.binsFromPeer,
    arrivals.binsFromCheckpoint,
    arrivals.bytesFromPeer,
    arrivals.bytesFromCheckpoint,
    arrivals.waitMs,
    arrivals.isRecovered,
    arrivals.subBins,
    arrivals.questions,
    c.binsIncomplete,
    c.bytesElsewhere
  )
}
