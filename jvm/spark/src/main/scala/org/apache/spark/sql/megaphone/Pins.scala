// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCoordinatorRef, StateStoreId, StateStoreProviderId
}

/** Asks Spark to run a worker on an executor. Spark prefers, for a task with state, the executor
  * that the state store coordinator has for its store. The driver sets that executor before the
  * batch. It is a preference only.
  *
  * Private to Spark (4.2, 4.3): `StreamingQueryManager.stateStoreCoordinator`,
  * `StateStoreCoordinatorRef.reportActiveInstance`.
  */
object Pins {

  /** Pins all stores of a worker. Each pin is a blocking call to the coordinator. */
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
