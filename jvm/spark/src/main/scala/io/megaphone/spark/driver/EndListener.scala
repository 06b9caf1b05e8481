// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

/** Tells the application's driver that a query has ended, so that it forgets the query at once. */
final class EndListener extends StreamingQueryListener {
  override def onQueryStarted(event: QueryStartedEvent): Unit = ()
  override def onQueryProgress(event: QueryProgressEvent): Unit = ()
  override def onQueryTerminated(event: QueryTerminatedEvent): Unit =
    ApplicationDriver.active.foreach(_.ended(event.runId.toString))
}
