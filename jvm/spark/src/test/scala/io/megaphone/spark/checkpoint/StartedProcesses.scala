// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import _root_.jdk.jfr.Recording
import _root_.jdk.jfr.consumer.{RecordedThread, RecordingFile}

/** The processes that this JVM starts, as the JVM itself records them. */
object StartedProcesses {

  /** The commands of those that were started while `body` ran, by threads that count. */
  def during(counts: RecordedThread => Boolean)(body: => Unit): Seq[String] = {
    val recording = new Recording
    val events = Files.createTempFile("megaphone-processes", ".jfr")
    try {
      recording.enable("jdk.ProcessStart").withoutStackTrace().withoutThreshold()
      recording.start()
      body
      recording.stop()
      recording.dump(events)
      RecordingFile
        .readAllEvents(events)
        .asScala
        .toSeq
        .filter(event =>
          event.getEventType.getName == "jdk.ProcessStart" && counts(event.getThread)
        )
        .map(_.getString("command"))
    } finally { recording.close(); Files.delete(events) }
  }

  /** Those of this very thread. */
  def byThisThread(body: => Unit): Seq[String] =
    during(_.getJavaThreadId == Thread.currentThread.getId)(body)
}
