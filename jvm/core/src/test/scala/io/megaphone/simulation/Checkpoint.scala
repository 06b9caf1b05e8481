// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import java.io.ByteArrayOutputStream

import scala.collection.mutable

import io.megaphone.checkpoint.{AtomicOutput, StateFiles, SweptFiles}
import io.megaphone.checkpoint.planlog.{History, LogRecord, MemoryRecords, PlanLog}
import io.megaphone.errors.MissingFileException
import io.megaphone.format.{BytesSource, FileName, FileSource, StoreId, VersionIds}

/** The checkpoint of a query, in memory: what outlives every process. */
final class Checkpoint(setup: Setup, faults: Faults) {

  /** By batch: what its rows follow from. */
  val offsets: mutable.TreeMap[Long, Long] = mutable.TreeMap.empty

  /** By batch N: by store, ids of the state at version N + 1; none under checkpoint format v1. */
  val commits: mutable.TreeMap[Long, Map[StoreId, VersionIds]] = mutable.TreeMap.empty
  val planLog = new MemoryPlanLog(faults)
  val files: Map[StoreId, MemoryFiles] =
    setup.stores.map(s => s -> new MemoryFiles(s.toString, faults)).toMap

  /** The ids of a version: those in the commit log of the batch before. None if that is purged. */
  def idsAt(version: Long): Option[Map[StoreId, VersionIds]] =
    if (version == 0) Some(Map.empty) else commits.get(version - 1)

  def latestCommitted: Option[Long] = commits.lastOption.map(_._1)

  /** What Spark does as it constructs a batch: old entries go. */
  def purge(batch: Long): Unit =
    commits.filterInPlace((committed, _) => committed >= batch - setup.retained)

  /** A user goes back to `version`: deletes everything that came later, except the state. */
  def goBack(version: Long): Unit = {
    offsets.filterInPlace((batch, _) => batch < version)
    commits.filterInPlace((batch, _) => batch < version)
  }
}

/** The plan log: numbered records, none ever overwritten, unless a fault does. */
final class MemoryPlanLog(faults: Faults) extends MemoryRecords {

  /** Whether records that were appended are lost. */
  var isDamaged = false

  def history: History = new PlanLog(this).read()

  /** Loses the newest records, as `truncate` does. */
  def damage(next: Long): Unit = if (next < nextNumber) { truncate(next); isDamaged = true }

  override def create(number: Long, record: LogRecord): Boolean = {
    if (number > nextNumber)
      throw new Violation(s"record $number would leave a gap before it: $nextNumber is the next")
    super.create(number, record) || faults.strikes(Fault.RecordReplaced) && {
      replace(number, record)
      isDamaged = true
      true
    }
  }
}

/** The files of one store. */
final class MemoryFiles(folder: String, faults: Faults) extends StateFiles with SweptFiles {
  private val files = mutable.HashMap.empty[FileName, Array[Byte]]
  private val swept = mutable.HashSet.empty[String]

  override def listed: Vector[FileName] = files.keysIterator.toVector
  override def delete(file: FileName): Unit = {
    files.remove(file)
    swept += s"$folder/$file"
    ()
  }
  override def deleteUnfinished(before: Long): Unit = ()

  /** Whether a sweep has deleted the file of this whole name. */
  def wasSwept(name: String): Boolean = swept(name)

  override def create(file: FileName): AtomicOutput = new AtomicOutput {
    private val out = new ByteArrayOutputStream(512)
    private var isClosed = false
    override def write(b: Int): Unit = out.write(b)
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      out.write(bytes, offset, length)
    override def close(): Unit = if (!isClosed) {
      isClosed = true
      if (faults.strikes(Fault.FileFails)) throw new InjectedFault(s"$file was not written")
      files(file) = out.toByteArray
      if (faults.strikes(Fault.FileUnsure))
        throw new InjectedFault(s"$file may be written or not")
    }
    override def cancel(): Unit = isClosed = true
  }

  override def open(file: FileName): FileSource = {
    val name = s"$folder/$file"
    new BytesSource(name, files.getOrElse(file, throw new MissingFileException(name)))
  }
}
