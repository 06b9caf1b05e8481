// SPDX-License-Identifier: Apache-2.0
package io.megaphone.store

import io.megaphone.format.Footer

/** The plan log and the state contradict each other: one of them is from another time, or records of the plan log are missing. The state is not read, for
  * nobody knows which worker has which bin.
  */
final class PlanLogMismatchException private (reason: String)
    extends RuntimeException(
      s"The plan log does not fit the state: $reason; restore the checkpoint's folder megaphone/log and its state from one copy, or go back to a version " +
        "before the records that are missing."
    ) {

  /** The stable name of the error, by which other languages map it. */
  val condition: String = "PLAN_LOG_MISMATCH"
}

object PlanLogMismatchException {
  private[store] def otherTable(footer: Footer): PlanLogMismatchException = new PlanLogMismatchException(
    s"the file ${footer.file} was written under routing table ${footer.tableNumber}, which is not the table that the plan log has for version ${footer.file.name.version}"
  )

  private[store] def left(footer: Footer, bin: Int): PlanLogMismatchException =
    new PlanLogMismatchException(s"by the plan log worker ${footer.file.worker} has bin $bin, which left it with the file ${footer.file}")
}
