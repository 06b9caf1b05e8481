// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.checkpoint.{Recovery, Settled, Sweep}
import io.megaphone.plan.Group

/** Deletes state files that no retained version needs: rules 27 and 28. Off the batch's path, and
  * the only one that deletes.
  *
  * It keeps nothing in memory, so that runs of a batch or two get rid of old files, too. With them
  * goes what attempts that died left of files of versions before the oldest one retained. A sweep
  * that fails has deleted nothing, or files that nobody needs; the next one finds the others.
  */
private[spark] final class StateSweeper(checkpointRoot: String, hadoopConf: Configuration)
    extends Logging {

  /** One look at the state. One call at a time.
    *
    * @param oldest
    *   the oldest version that is retained
    * @param newest
    *   the newest that is settled
    */
  def sweep(groups: Vector[Group], oldest: Settled, newest: Settled): Unit =
    for (group <- groups; operator <- group.operators; store <- operator.stores)
      try sweepStore(group.id, operator.id, store, oldest, newest)
      catch {
        case NonFatal(e) =>
          logInfo(
            s"Old files of the state of operator ${operator.id} could not be looked for at version ${oldest.version}: $e"
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
    val isFixed = !oldest.names.contains(
      (operator, store)
    ) // checkpoint format v1, where a late attempt may have written a newer file anew
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
      s"Deleted ${unneeded.size} files of the state of operator $operator that no version from ${oldest.version} on needs."
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
