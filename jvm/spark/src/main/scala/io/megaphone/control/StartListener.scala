// SPDX-License-Identifier: Apache-2.0
package io.megaphone.control

import org.apache.spark.sql.megaphone.ActiveQueries
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

/** Looks at a query's offset log once, as it starts: a batch that an earlier run logged may have run, and takes no new step. Spark calls `onQueryStarted`
  * before the query's first batch.
  */
final class StartListener extends StreamingQueryListener {
  override def onQueryStarted(event: QueryStartedEvent): Unit =
    Controller.active.foreach(c => ActiveQueries.latestOffsetBatch(event.runId).foreach(latest => c.started(event.runId.toString, latest)))
  override def onQueryProgress(event: QueryProgressEvent): Unit = ()
  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = Controller.active.foreach(_.ended(event.runId.toString))
}
