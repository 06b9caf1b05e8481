// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

/** Tells the application's driver what Spark reports of queries: how long a batch took, and that a
  * query has ended, so that the driver forgets it at once.
  */
final class QueryListener extends StreamingQueryListener {
  override def onQueryStarted(event: QueryStartedEvent): Unit = ()

  override def onQueryProgress(event: QueryProgressEvent): Unit = {
    val progress = event.progress
    val durations = progress.durationMs
    // A trigger that found no data reports progress too, and has run no batch.
    if (durations.containsKey("addBatch") && durations.containsKey("triggerExecution"))
      ApplicationDriver.active.foreach(
        _.batchEnded(progress.runId.toString, progress.batchId, durations.get("triggerExecution"))
      )
  }

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit =
    ApplicationDriver.active.foreach(_.ended(event.runId.toString, event.exception))
}
