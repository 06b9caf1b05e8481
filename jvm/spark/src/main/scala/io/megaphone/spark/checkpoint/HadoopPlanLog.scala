// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path, StreamCapabilities}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.checkpoint.Parallel
import io.megaphone.checkpoint.planlog.{LogRecord, LogRecordFormat, PlanLogFiles}

/** The plan log's records in a checkpoint: one file per record, `megaphone/log/<number>`.
  *
  * Threads: any.
  */
final class HadoopPlanLog(checkpointRoot: String, hadoopConf: Configuration) extends PlanLogFiles {
  private val path = new Path(checkpointRoot, "megaphone/log")
  private lazy val files = CheckpointFileManager.create(path, hadoopConf)
  private lazy val objects = ObjectStore.of(path, hadoopConf)
  private lazy val refusing = objects.filter(_.refuses(path))

  override def folder: String = path.toString

  override def numbers(): Vector[Long] =
    try
      files
        .list(path)
        .iterator
        .filterNot(_.isDirectory)
        .flatMap(f => f.getPath.getName.toLongOption)
        .toVector
    catch { case _: FileNotFoundException => Vector.empty }

  override def read(numbers: Vector[Long]): Vector[Option[LogRecord]] =
    Parallel.Requests(numbers.map(n => () => readRecord(n))).toVector

  /** Whether two writers of one number are known both to succeed: in an object store that creates a
    * file although there is one.
    */
  def letsTwoAppend: Boolean = objects.isDefined && refusing.isEmpty

  override def create(number: Long, record: LogRecord): Boolean =
    refusing match {
      case Some(store) => store.create(file(number), LogRecordFormat.encode(record))
      case None => createFile(number, record)
    }

  private def createFile(number: Long, record: LogRecord): Boolean =
    try {
      if (number == 0) files.mkdirs(path)
      val out = files.createAtomic(file(number), overwriteIfPossible = false)
      try {
        out.write(LogRecordFormat.encode(record))
        // A record that a power cut leaves empty is one that no start survives.
        if (out.hasCapability(StreamCapabilities.HSYNC)) out.hsync()
        out.close()
      } catch { case e: Throwable => out.cancel(); throw e }
      true
    } catch {
      case _: FileAlreadyExistsException | _: java.nio.file.FileAlreadyExistsException => false
    }

  override def delete(number: Long): Unit = files.delete(file(number))

  private def readRecord(number: Long): Option[LogRecord] =
    try {
      val in = files.open(file(number))
      try Some(LogRecordFormat.decode(file(number).toString, in.readAllBytes()))
      finally in.close()
    } catch { case _: FileNotFoundException => None }

  private def file(number: Long) = new Path(path, number.toString)
}
