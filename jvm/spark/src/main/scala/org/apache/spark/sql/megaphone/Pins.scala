// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCoordinatorRef, StateStoreId, StateStoreProviderId
}

/** Wishes where workers should run. Spark sends a state task to the executor that the coordinator
  * has for its store; told from the driver before the batch, that is a pin, and a preference only.
  */
object Pins {

  /** Pins all stores of a worker. */
  def pin(
      session: SparkSession,
      query: RunningQuery,
      operator: Long,
      stores: Seq[String],
      worker: Int,
      host: String,
      executor: String
  ): Unit = {
    val coordinator: StateStoreCoordinatorRef =
      session.sessionState.streamingQueryManager.stateStoreCoordinator
    stores.foreach { store =>
      val id = StateStoreProviderId(
        StateStoreId(s"${query.checkpointRoot}/state", operator, worker, store),
        query.runId
      )
      coordinator.reportActiveInstance(id, host, executor, Seq.empty)
    }
  }
}
