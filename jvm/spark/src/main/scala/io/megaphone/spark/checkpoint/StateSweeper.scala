// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.checkpoint.{Recovery, Settled, Sweep}
import io.megaphone.plan.Group

/** Deletes the state files that no retained version needs: rules 27 and 28. Nothing else deletes
  * state files.
  *
  * Given the oldest retained version and the newest settled one, for each store:
  *   1. The footers of all workers at the oldest version, and under checkpoint format v1 also at
  *      the newest, say which files are referenced.
  *   1. The delta files in the workers' folders that rule 28 no longer needs are deleted.
  *   1. Temporary files of versions before the oldest retained one are deleted: the attempts that
  *      wrote them have died.
  *
  * Nothing is kept in memory between sweeps, so runs of one or two batches sweep as well. Dies at
  * any point: only files that no version needs are gone, and the next sweep finds the rest.
  */
private[spark] final class StateSweeper(checkpointRoot: String, hadoopConf: Configuration)
    extends Logging {

  /** Sweeps all stores once. A store that cannot be swept is logged and skipped.
    *
    * Threads: one call at a time, off the batch's path.
    *
    * @param oldest
    *   the oldest retained version
    * @param newest
    *   the newest settled version
    */
  def sweep(groups: Vector[Group], oldest: Settled, newest: Settled): Unit =
    for (group <- groups; operator <- group.operators; store <- operator.stores)
      try sweepStore(group.id, operator.id, store, oldest, newest)
      catch {
        case NonFatal(e) =>
          logInfo(
            s"Old files of the state of operator ${operator.id} could not be looked for at " +
              s"version ${oldest.version}: $e"
          )
      }

  private def sweepStore(
      group: Long,
      operator: Long,
      store: String,
      oldest: Settled,
      newest: Settled
  ): Unit = {
    val folder = new Path(s"$checkpointRoot/state/$operator")
    val files = new HadoopStateFiles(folder, store, hadoopConf)
    // Checkpoint format v1, under which a late attempt may have overwritten a newer file.
    val isFixed = !oldest.names.contains((operator, store))
    val heads = (if (isFixed) Vector(oldest, newest) else Vector(oldest)).flatMap(
      _.heads(group, operator, store)
    )
    val referenced = new Sweep(new Recovery(files, Lz4.All)).referenced(heads)
    val listed = workerFolders(folder).map(files.list)
    val unneeded = Sweep.unneeded(listed.flatMap(_.files), referenced, oldest.version)
    unneeded.foreach(files.delete)
    listed.flatMap(_.unfinished).foreach { case (file, path) =>
      if (file.name.version < oldest.version) files.delete(path)
    }
    logInfo(
      s"Deleted ${unneeded.size} files of the state of operator $operator that no version from " +
        s"${oldest.version} on needs."
    )
  }

  private def workerFolders(folder: Path): Vector[Int] =
    CheckpointFileManager
      .create(folder, hadoopConf)
      .list(folder)
      .iterator
      .filter(_.isDirectory)
      .flatMap(_.getPath.getName.toIntOption)
      .toVector
}
