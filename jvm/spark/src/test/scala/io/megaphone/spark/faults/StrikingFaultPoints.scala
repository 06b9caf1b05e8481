// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faults

import java.nio.file.{FileAlreadyExistsException, Files, Path, Paths}

import org.apache.spark.SparkEnv

import io.megaphone.runtime.FaultPoints

/** Fault points at which a test lets something go wrong. A jar of its own, which a test adds to
  * `spark.jars`, brings it as a Java service.
  *
  * It does nothing unless two keys are set: `spark.megaphonetest.faults`, a comma-separated list of
  * entries, and `spark.megaphonetest.faultsFolder`, where a file named like the entry says that the
  * entry has struck. A file that exists beforehand disarms its entry.
  *
  * An entry strikes once in all, in the first process that reaches its point. It is
  *   - `point`: `kill -9` of that process, so nothing is flushed, closed or reported;
  *   - `point=pause`: the process stops where it is, until it is sent SIGCONT;
  *   - `block-published=lost`, `=damaged` or `=cut`: a block for another executor is not put, has a
  *     wrong byte, or lacks its second half; `file-pushed` likewise, of a file that is sent to it,
  *     `question-sent` of a question, and `answer-came` of its answer. Who asks does not wait for
  *     one that is lost: a deadline passes where an executor is frozen;
  *   - `file-pushed=hang`: the file waits, deaf to interrupts, until somebody writes to the pipe
  *     `<entry>.gate` in the folder;
  *   - `block-pulled=late`: a pull hangs until it is given up;
  *   - `driver-create=fail` and the like: an operation of [[FailingFileSystem]] fails; with `=hang`
  *     it waits in the same way; with `=deny` it fails in each process, each time, as long as the
  *     entry is armed.
  */
final class StrikingFaultPoints extends FaultPoints {
  import StrikingFaultPoints._

  override def at(point: String): Unit = strike(point) {
    case "pause" => signal("-STOP")
    case "late" => Thread.sleep(Long.MaxValue)
    case _ => signal("-9")
  }

  override def handedOut(point: String, bytes: Array[Byte]): Option[Array[Byte]] = {
    var result: Option[Array[Byte]] = Some(bytes)
    strike(point) {
      case "lost" => result = None
      case "cut" => result = Some(bytes.take(bytes.length / 2))
      case "hang" => hang(point)
      case _ =>
        val damaged = bytes.clone()
        damaged(bytes.length / 2) = (damaged(bytes.length / 2) ^ 0x10).toByte
        result = Some(damaged)
    }
    result
  }
}

object StrikingFaultPoints {
  private val Faults = "spark.megaphonetest.faults"
  private val Folder = "spark.megaphonetest.faultsFolder"

  private[faults] def strike(point: String)(action: String => Unit): Unit =
    for {
      env <- Option(SparkEnv.get)
      faults <- env.conf.getOption(Faults)
      folder <- env.conf.getOption(Folder)
      entry <- faults.split(',').map(_.trim)
      parts = entry.split('=')
      what = parts.lift(1).getOrElse("kill")
      marker = Paths.get(folder, entry)
      if parts(0) == point && (if (what == "deny") !Files.exists(marker) else isFirst(marker))
    } action(what)

  private[faults] def hang(point: String): Unit =
    Files.newInputStream(Paths.get(SparkEnv.get.conf.get(Folder), s"$point=hang.gate")).close()

  private def signal(name: String): Unit = {
    new ProcessBuilder("kill", name, ProcessHandle.current.pid.toString).start().waitFor()
    ()
  }

  private def isFirst(marker: Path): Boolean =
    try {
      Files.writeString(Files.createFile(marker), Option(SparkEnv.get).fold("")(_.executorId))
      true
    } catch { case _: FileAlreadyExistsException => false }
}
