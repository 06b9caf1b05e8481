// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

/** Named points of the protocol at which a test can inject a fault. As shipped they do nothing: the
  * code that kills, pauses or damages belongs to the tests.
  *
  * Threads: any.
  */
trait FaultPoints {

  /** The process has come to a point. */
  def at(point: String): Unit

  /** Returns the bytes that travel between executors at a point, in place of a block's, a file's, a
    * question's or an answer's; None if they are lost.
    */
  def handedOut(point: String, bytes: Array[Byte]): Option[Array[Byte]]
}

object FaultPoints {

  /** An executor that publishes images: before and after one exists. */
  val SourcePublishing = "source-publishing"
  val SourcePublished = "source-published"

  /** An executor that prepares a replica: before it pulls, and when the replica is made. */
  val TargetPulling = "target-pulling"
  val TargetPrepared = "target-prepared"

  /** An executor that keeps a standby: before it brings it forward or adds a slice. */
  val StandbyKept = "standby-kept"

  /** A task that takes over a standby: before it opens the state, and when its file is durable. */
  val StandbyOpening = "standby-opening"
  val StandbyCommitted = "standby-committed"

  /** An executor that brings the rest of a step on demand: before it asks for some. */
  val RestAsked = "rest-asked"

  /** A task of a step's batch: before it adopts bins, and when it has. */
  val StepOpening = "step-opening"
  val StepOpened = "step-opened"

  /** A task of a step's batch: before its file is written, and when the file is durable. */
  val StepCommitting = "step-committing"
  val StepCommitted = "step-committed"

  /** The driver: before a seal is appended, when it is, and when the batch after it is planned. */
  val DriverSealing = "driver-sealing"
  val DriverSealed = "driver-sealed"
  val DriverSettled = "driver-settled"

  /** A block: when it is published, and when it is pulled. */
  val BlockPublished = "block-published"
  val BlockPulled = "block-pulled"

  /** A question about what a step on demand took: before it is asked, when it is sent, before the
    * source's executor answers it, and when its answer comes.
    */
  val QuestionAsked = "question-asked"
  val QuestionSent = "question-sent"
  val QuestionAnswering = "question-answering"
  val AnswerCame = "answer-came"

  /** The file of a commit: when it is sent to an executor that stands by. */
  val FilePushed = "file-pushed"

  /** As shipped. */
  object Off extends FaultPoints {
    override def at(point: String): Unit = ()
    override def handedOut(point: String, bytes: Array[Byte]): Option[Array[Byte]] = Some(bytes)
  }
}
