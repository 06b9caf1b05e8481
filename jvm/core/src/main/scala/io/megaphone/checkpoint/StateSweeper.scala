// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

import scala.util.{Failure, Try}

import io.megaphone.format.{FileName, StoreId}

/** The files of one store, as the sweep sees them. */
trait SweptFiles {

  /** All files of all workers, in any order. */
  def listed: Vector[FileName]

  /** Deletes a file. Threads: any, several files at once. */
  def delete(file: FileName): Unit

  /** Deletes temporary files that were to become a file of a version before this one. */
  def deleteUnfinished(before: Long): Unit
}

/** Deletes state files that no retained version needs. It runs in the background, and nothing else
  * deletes state files.
  *
  * Given the oldest version that is retained, and the newest that is settled.
  *   1. The files that the oldest retained version needs are found, as [[Sweep]] says. Anything
  *      missing, damaged or not fitting the plan log is an error: nothing is deleted then.
  *   1. The other files of version s - 16 or older are deleted, if s is that oldest version: as
  *      many at once as the recovery reads, because a store of objects takes several requests for
  *      each. One that cannot be deleted keeps no other. ''Dies:'' the next sweep finds the rest.
  *   1. Temporary files of versions before s, which attempts that died left, are deleted.
  *
  * It keeps nothing in memory, so that runs of one or two batches delete old files, too.
  *
  * Threads: one call at a time for a store.
  */
object StateSweeper {

  /** Returns how many files were deleted. Throws what the first that could not be deleted threw,
    * once the others are.
    *
    * @param oldest
    *   the oldest version that is retained
    * @param newest
    *   the newest that is settled
    */
  def sweep(
      group: Long,
      store: StoreId,
      oldest: Settled,
      newest: Settled,
      recovery: Recovery,
      files: SweptFiles
  ): Int = {
    // Under checkpoint format v1 a late attempt may have written a newer file again.
    val isFixed = !oldest.ids.contains(store)
    val settled = if (isFixed) Vector(oldest, newest) else Vector(oldest)
    val needed = new Sweep(recovery).referenced(settled.flatMap(_.heads(group, store)))
    val unneeded = Sweep.unneeded(files.listed, needed, oldest.version)
    val outcomes =
      recovery.together(unneeded.toVector.map(file => () => Try(files.delete(file))))
    files.deleteUnfinished(oldest.version)
    outcomes.collectFirst { case Failure(e) => throw e }
    unneeded.size
  }
}
