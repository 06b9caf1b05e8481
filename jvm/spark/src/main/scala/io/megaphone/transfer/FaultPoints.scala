// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.nio.file.{FileAlreadyExistsException, Files, Path, Paths}

import org.apache.spark.SparkEnv

/** Named points of the protocol at which a test can let a process die. Off, and free, unless `spark.megaphone.test.faults` is set: a comma-separated list of points, and
  * `spark.megaphone.test.faultsFolder`, where a file named like the point says that it has struck.
  *
  * A point strikes once in all, in whichever process reaches it first; it is `kill -9` of that process, so nothing is flushed, closed or told.
  */
object FaultPoints {

  /** An executor that publishes images: before and after one is there. */
  val SourcePublishing = "source-publishing"
  val SourcePublished = "source-published"

  /** An executor that prepares a copy: before it pulls, and when the copy is made. */
  val TargetPulling = "target-pulling"
  val TargetPrepared = "target-prepared"

  /** A task of a step's batch: before it adopts bins, and when it has. */
  val StepOpening = "step-opening"
  val StepOpened = "step-opened"

  /** A task of a step's batch: before its file is written, and when it is durable. */
  val StepCommitting = "step-committing"
  val StepCommitted = "step-committed"

  /** The driver: before a seal is appended, when it is, and when the batch after it is planned. */
  val DriverSealing = "driver-sealing"
  val DriverSealed = "driver-sealed"
  val DriverSettled = "driver-settled"

  val all: Vector[String] = Vector(
    SourcePublishing,
    SourcePublished,
    TargetPulling,
    TargetPrepared,
    StepOpening,
    StepOpened,
    StepCommitting,
    StepCommitted,
    DriverSealing,
    DriverSealed,
    DriverSettled
  )

  private val Faults = "spark.megaphone.test.faults"
  private val Folder = "spark.megaphone.test.faultsFolder"

  /** The process is at a point. */
  def at(point: String): Unit =
    for {
      env <- Option(SparkEnv.get)
      faults <- env.conf.getOption(Faults)
      if faults.split(',').map(_.trim).contains(point)
      folder <- env.conf.getOption(Folder)
      if isFirst(Paths.get(folder, point))
    } { new ProcessBuilder("kill", "-9", ProcessHandle.current.pid.toString).start().waitFor(); () }

  private def isFirst(marker: Path): Boolean =
    try { Files.writeString(Files.createFile(marker), Option(SparkEnv.get).fold("")(_.executorId)); true }
    catch { case _: FileAlreadyExistsException => false }
}
