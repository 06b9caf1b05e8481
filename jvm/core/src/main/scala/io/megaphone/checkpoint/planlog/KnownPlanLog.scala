// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint.planlog

import java.lang.ref.SoftReference

/** The plan log that the readers of this process have read last. A reader has a task for each
  * partition and store, and each of them needs the whole log.
  *
  * A log that has the same numbers and the same newest record is the same log: no record is ever
  * overwritten (P4), and the newest names its run or its plan, so another checkpoint in the same
  * folder has another one.
  *
  * Threads: any. Two that come at once may both read. Its memory is given back if the heap is
  * short.
  */
final class KnownPlanLog {
  import KnownPlanLog._

  @volatile private var known = new SoftReference[Known](null)

  /** All that a log says. Lists the folder and reads the newest record, and the others unless they
    * are known. Throws as [[PlanLog]] does.
    */
  def read(files: PlanLogFiles): History = {
    val numbers = files.numbers().sorted
    val newest = files.read(numbers.takeRight(1)).headOption.flatten
    Option(known.get).filter(_.isOf(files.folder, numbers, newest)).map(_.history).getOrElse {
      val history = new PlanLog(files).read()
      val areAll = numbers.lastOption.exists(_ + 1 == history.nextNumber)
      if (areAll) known = new SoftReference(Known(files.folder, numbers, newest, history))
      history
    }
  }
}

private object KnownPlanLog {
  private final case class Known(
      folder: String,
      numbers: Vector[Long],
      newest: Option[LogRecord],
      history: History
  ) {
    def isOf(folder: String, numbers: Vector[Long], newest: Option[LogRecord]): Boolean =
      folder == this.folder && numbers == this.numbers && newest == this.newest
  }
}
