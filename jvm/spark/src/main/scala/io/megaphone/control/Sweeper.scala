// SPDX-License-Identifier: Apache-2.0
package io.megaphone.control

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.format.{FileName, StateName}
import io.megaphone.protocol.Group
import io.megaphone.routing.RoutingTable
import io.megaphone.store.{Recovery, Sweep}
import io.megaphone.transfer.{HadoopStateFiles, Lz4}

/** Deletes state files that no retained version needs, for one run of a query: rules 27 and 28. Off the batch's path, and the only one that deletes.
  *
  * Candidates found at a settled version go once every version before it is retained no longer, and so does what an attempt that died left of a file of
  * such a version. A sweep that fails deletes nothing; the next one finds the same files, and a new run starts over.
  */
private[control] final class Sweeper(checkpointRoot: String, hadoopConf: Configuration, batchesToRetain: Int) extends Logging {
  private val candidates = mutable.Map.empty[(Long, String), (Long, Set[FileName])] // (operator, store) → found at, files

  /** One look at the state as settled at `version`. One call at a time.
    *
    * @param tables
    *   by group: the table whose workers wrote that version
    * @param names
    *   by operator and store: id of each worker at that version; empty under checkpoint format v1
    */
  def sweep(version: Long, groups: Vector[Group], tables: Map[Long, RoutingTable], names: Map[(Long, String), Vector[String]]): Unit =
    for (group <- groups; operator <- group.operators; store <- operator.stores)
      try sweepStore(version, operator.id, store, tables(group.id), names.getOrElse((operator.id, store), Vector.empty))
      catch { case NonFatal(e) => logInfo(s"Old files of the state of operator ${operator.id} could not be looked for at version $version: $e") }

  private def sweepStore(version: Long, operator: Long, store: String, table: RoutingTable, ids: Vector[String]): Unit = {
    val folder = new Path(s"$checkpointRoot/state/$operator")
    val files = new HadoopStateFiles(folder, store, hadoopConf)
    val heads = (0 until table.workers)
      .map { worker =>
        FileName(worker, StateName(version, ids.lift(worker).getOrElse(StateName.FixedId))) -> table.binsOf(worker).toVector
      }
      .filter(_._2.nonEmpty)
    val referenced = new Sweep(new Recovery(files, Lz4.All)).referenced(heads)
    val key = (operator, store)
    val retained = version - math.max(2, batchesToRetain)
    candidates.get(key).foreach { case (foundAt, found) =>
      if (foundAt <= retained) {
        val gone = found.filterNot(referenced)
        gone.foreach(files.delete)
        logInfo(s"Deleted ${gone.size} files of the state of operator $operator that no retained version needs.")
        candidates.remove(key)
      }
    }
    if (!candidates.contains(key)) {
      val listed = workerFolders(folder).map(files.list)
      candidates(key) = version -> Sweep.candidates(listed.flatMap(_.files), referenced, version)
      listed.flatMap(_.unfinished).foreach { case (file, path) => if (file.name.version <= retained) files.delete(path) }
    }
  }

  private def workerFolders(folder: Path): Vector[Int] =
    CheckpointFileManager.create(folder, hadoopConf).list(folder).iterator.filter(_.isDirectory).flatMap(_.getPath.getName.toIntOption).toVector
}
