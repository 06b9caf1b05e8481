// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.checkpoint.planlog.{History, LogRecord, LogRecordFormat}
import io.megaphone.errors.DamagedFileException

/** The plan log in a checkpoint: one file per record, `megaphone/log/<number>`, never overwritten.
  *
  * A record is appended by an atomic creation that fails if its number is taken. If two drivers run
  * the same query, one of them finds out that way.
  *
  * Threads: one.
  */
final class HadoopPlanLog(checkpointRoot: String, hadoopConf: Configuration) {
  private val folder = new Path(checkpointRoot, "megaphone/log")
  private lazy val files = CheckpointFileManager.create(folder, hadoopConf)

  /** All records, in order; empty if there is no log. Throws DamagedFileException if a record is
    * damaged or missing.
    */
  def read(): History = {
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

  /** Appends a record under a number. Returns false if the number is taken. Throws what the file
    * system throws; the record may then have been written or not.
    */
  def append(number: Long, record: LogRecord): Boolean = {
    val bytes = LogRecordFormat.encode(record)
    if (number == 0) files.mkdirs(folder)
    try {
      val out = files.createAtomic(new Path(folder, number.toString), overwriteIfPossible = false)
      try {
        out.write(bytes)
        out.close()
      } catch {
        case e: Throwable =>
          out.cancel()
          throw e
      }
      true
    } catch {
      case _: FileAlreadyExistsException | _: java.nio.file.FileAlreadyExistsException => false
    }
  }

  /** Reads one record. Throws DamagedFileException if it is damaged. */
  def readRecord(number: Long): LogRecord = {
    val path = new Path(folder, number.toString)
    val in = files.open(path)
    try LogRecordFormat.decode(path.toString, in.readAllBytes())
    finally in.close()
  }
}
