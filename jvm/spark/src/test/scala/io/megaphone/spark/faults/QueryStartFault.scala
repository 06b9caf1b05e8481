// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faults

import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener.{
  QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent
}

/** The fault point `query-started`, for tests that name this class in
  * `spark.sql.streaming.streamingQueryListeners`. Spark calls it on the stream's thread, before it
  * makes the query's sources and before it reads the offset log.
  */
final class QueryStartFault extends StreamingQueryListener {
  private val faults = new StrikingFaultPoints

  override def onQueryStarted(event: QueryStartedEvent): Unit = faults.at("query-started")
  override def onQueryProgress(event: QueryProgressEvent): Unit = ()
  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = ()
}
