// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import scala.util.control.NonFatal

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCoordinatorRef, StateStoreProviderId
}

/** Tells Spark's coordinator how far a store can be recovered quickly; it warns of stores that it
  * does not hear of for long.
  */
object SnapshotReports extends Logging {

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
