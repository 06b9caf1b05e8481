// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCoordinatorRef, StateStoreProviderId
}

/** Reports to Spark's coordinator the version up to which a store can be recovered quickly. The
  * coordinator warns about stores without a report for long.
  *
  * Private to Spark (4.2, 4.3): `StateStoreCoordinatorRef.snapshotUploaded`.
  */
object SnapshotReports extends Logging {

  /** Reports a version. A failure is logged and otherwise ignored. */
  def report(id: StateStoreProviderId, version: Long): Unit =
    try
      Option(SparkEnv.get).foreach(env =>
        StateStoreCoordinatorRef
          .forExecutor(env)
          .snapshotUploaded(id, version, System.currentTimeMillis)
      )
    catch {
      case NonFatal(e) =>
        logInfo(s"The coordinator could not be told of version $version of $id: ${e.getMessage}")
    }
}
