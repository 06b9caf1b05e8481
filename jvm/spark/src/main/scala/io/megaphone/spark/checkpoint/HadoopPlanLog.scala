// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.FileNotFoundException

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.checkpoint.planlog.{
  AppendOutcome, History, LogRecord, LogRecordFormat, PlanLogFiles
}
import io.megaphone.errors.DamagedFileException

/** The plan log in a checkpoint: one file per record, `megaphone/log/<number>`, never overwritten.
  *
  * A record is appended by an atomic creation that fails if its number is taken. If two drivers run
  * the same query, one of them finds out that way.
  *
  * Threads: one.
  */
final class HadoopPlanLog(checkpointRoot: String, hadoopConf: Configuration) extends PlanLogFiles {
  private val folder = new Path(checkpointRoot, "megaphone/log")
  private lazy val files = CheckpointFileManager.create(folder, hadoopConf)

  override def read(): History = {
    val numbers =
      try
        files
          .list(folder)
          .iterator
          .filterNot(_.isDirectory)
          .flatMap(f => f.getPath.getName.toLongOption)
          .toVector
          .sorted
      catch { case _: FileNotFoundException => Vector.empty }
    numbers.zipWithIndex.find { case (number, i) => number != i }.foreach { case (number, i) =>
      throw new DamagedFileException(
        folder.toString,
        None,
        s"record $i",
        s"record $number as the next one"
      )
    }
    History.of(numbers.map(readRecord))
  }

  override def append(number: Long, record: LogRecord): AppendOutcome =
    try {
      if (number == 0) files.mkdirs(folder)
      val out = files.createAtomic(path(number), overwriteIfPossible = false)
      try { out.write(LogRecordFormat.encode(record)); out.close() }
      catch { case e: Throwable => out.cancel(); throw e }
      AppendOutcome.Appended
    } catch {
      case _: FileAlreadyExistsException | _: java.nio.file.FileAlreadyExistsException =>
        try AppendOutcome.Taken(readRecord(number))
        catch { case NonFatal(e) => AppendOutcome.Unconfirmed(e) }
      case NonFatal(e) => AppendOutcome.Unconfirmed(e)
    }

  override def recordAt(number: Long): Option[LogRecord] =
    try Some(readRecord(number))
    catch { case _: FileNotFoundException => None }

  private def readRecord(number: Long): LogRecord = {
    val in = files.open(path(number))
    try LogRecordFormat.decode(path(number).toString, in.readAllBytes())
    finally in.close()
  }

  private def path(number: Long) = new Path(folder, number.toString)
}
