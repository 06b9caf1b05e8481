// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import java.nio.file.{FileAlreadyExistsException, Files, Path, Paths}

import org.apache.spark.SparkEnv

/** Named points of the protocol at which a test can inject a fault. Off, and free, unless two keys
  * are set: `spark.megaphone.test.faults`, a comma-separated list of entries, and
  * `spark.megaphone.test.faultsFolder`. An entry that strikes creates a file of its name in that
  * folder. A file that exists beforehand disarms its entry.
  *
  * An entry strikes once, in the first process that reaches its point. It is one of
  *   - `point`: `kill -9` of that process, so that nothing is flushed, closed or reported;
  *   - `point=pause`: the process stops until it gets SIGCONT;
  *   - `block-published=lost`, `=damaged` or `=cut`: a block for another executor is not stored,
  *     has a wrong byte, or lacks its second half;
  *   - `block-pulled=late`: a pull hangs until it is cancelled.
  *
  * Threads: any.
  */
object FaultPoints {

  /** An executor that publishes an image: before, and after. */
  val SourcePublishing = "source-publishing"
  val SourcePublished = "source-published"

  /** An executor that prepares a replica: before it pulls, and when the replica is ready. */
  val TargetPulling = "target-pulling"
  val TargetPrepared = "target-prepared"

  /** A task of a step's batch: before it adopts bins, and after. */
  val StepOpening = "step-opening"
  val StepOpened = "step-opened"

  /** A task of a step's batch: before its file is written, and when it is durable. */
  val StepCommitting = "step-committing"
  val StepCommitted = "step-committed"

  /** The driver: before a seal is appended, after it, and when the batch after it is planned. */
  val DriverSealing = "driver-sealing"
  val DriverSealed = "driver-sealed"
  val DriverSettled = "driver-settled"

  /** A block: when it is stored, and when it is pulled. */
  val BlockPublished = "block-published"
  val BlockPulled = "block-pulled"

  private val Faults = "spark.megaphone.test.faults"
  private val Folder = "spark.megaphone.test.faultsFolder"

  /** Strikes if an entry names this point. */
  def at(point: String): Unit = strike(point) {
    case "pause" => signal("-STOP")
    case "late" => Thread.sleep(Long.MaxValue)
    case _ => signal("-9")
  }

  /** The bytes to store of a block; None if the block is lost. */
  def published(bytes: Array[Byte]): Option[Array[Byte]] = {
    var result: Option[Array[Byte]] = Some(bytes)
    strike(BlockPublished) {
      case "lost" => result = None
      case "cut" => result = Some(bytes.take(bytes.length / 2))
      case _ =>
        val damaged = bytes.clone()
        damaged(bytes.length / 2) = (damaged(bytes.length / 2) ^ 0x10).toByte
        result = Some(damaged)
    }
    result
  }

  private def strike(point: String)(action: String => Unit): Unit =
    for {
      env <- Option(SparkEnv.get)
      faults <- env.conf.getOption(Faults)
      folder <- env.conf.getOption(Folder)
      entry <- faults.split(',').map(_.trim)
      parts = entry.split('=')
      if parts(0) == point && isFirst(Paths.get(folder, entry))
    } action(parts.lift(1).getOrElse("kill"))

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
