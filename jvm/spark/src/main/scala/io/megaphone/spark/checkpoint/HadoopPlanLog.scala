// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.checkpoint.planlog.{History, LogRecord, LogRecordFormat}
import io.megaphone.errors.DamagedFileException

/** The plan log in a checkpoint: `megaphone/log/<number>`, one file a record, none overwritten.
  *
  * A record is appended by an atomic creation that fails where its number is taken: of two drivers
  * that think the query theirs, one finds out. One thread.
  */
final class HadoopPlanLog(checkpointRoot: String, hadoopConf: Configuration) {
  private val folder = new Path(checkpointRoot, "megaphone/log")
  private lazy val files = CheckpointFileManager.create(folder, hadoopConf)

  /** All records, in order; empty where there is no log. Throws DamagedFileException for a damaged
    * record or a gap.
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

  /** Appends a record as number `number`; false where that number is taken. Throws what the file
    * system throws: whether the record is there is then not known.
    */
  def append(number: Long, record: LogRecord): Boolean = {
    val bytes = LogRecordFormat.encode(record)
    if (number == 0) files.mkdirs(folder)
    try {
      val out = files.createAtomic(new Path(folder, number.toString), overwriteIfPossible = false)
      try { out.write(bytes); out.close() }
      catch { case e: Throwable => out.cancel(); throw e }
      true
    } catch {
      case _: FileAlreadyExistsException | _: java.nio.file.FileAlreadyExistsException => false
    }
  }

  /** One record. */
  def readRecord(number: Long): LogRecord = {
    val path = new Path(folder, number.toString)
    val in = files.open(path)
    try LogRecordFormat.decode(path.toString, in.readAllBytes())
    finally in.close()
  }
}
