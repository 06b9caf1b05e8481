// SPDX-License-Identifier: Apache-2.0
package io.megaphone.errors

/** The plan log and the state contradict each other: one of them is from another time, or records
  * of the plan log are missing. The state is not read, because nobody knows which worker has which
  * bin.
  */
final class PlanLogMismatchException private (
    reason: String,
    advice: String = PlanLogMismatchException.Restore
) extends RuntimeException(s"The plan log does not fit the state: $reason; $advice.")
    with MegaphoneError {
  override def condition: String = "PLAN_LOG_MISMATCH"
}

object PlanLogMismatchException {
  private val Restore =
    "restore the checkpoint's folder megaphone/log and its state from one copy, or go back to a " +
      "version before the records that are missing"

  /** A file was written under another routing table than the one that the plan log has for its
    * version.
    */
  def otherTable(file: String, tableNumber: Long, version: Long): PlanLogMismatchException =
    new PlanLogMismatchException(
      s"the file $file was written under routing table $tableNumber, which is not the table that " +
        s"the plan log has for version $version"
    )

  /** A table is asked for that no retained version needed when the plan log was trimmed. */
  def trimmed(batch: Long, since: Long): PlanLogMismatchException =
    new PlanLogMismatchException(
      s"the table of batch $batch is asked for, and the plan log has those from batch $since on",
      "ask for a later version, or go on from a later batch"
    )

  /** The plan log gives a worker a bin that has left it. */
  def left(file: String, worker: Int, bin: Int): PlanLogMismatchException =
    new PlanLogMismatchException(
      s"by the plan log worker $worker has bin $bin, which left it with the file $file"
    )

  /** The plan log has a worker that wrote nothing at that version. */
  def noWorker(store: String, version: Long, worker: Int, workers: Int): PlanLogMismatchException =
    new PlanLogMismatchException(
      s"by the plan log $store has worker $worker at version $version, but the commit log has " +
        s"only $workers workers there"
    )
}
