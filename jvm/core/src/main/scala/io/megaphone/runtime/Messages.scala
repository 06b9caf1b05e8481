// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.{ExecutorAddress, WorkerId}
import io.megaphone.plan.StepId
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.ReplicaDuty

/** What executors and the driver tell each other. Losing a message costs time, never correctness. */
sealed trait Message extends Serializable

/** An executor's periodic report; the answer is `Orders`.
  *
  * @param ready
  *   version that each replica has reached
  * @param refused
  *   replicas that there was no room for when they were last tried, and the reason
  */
final case class Report(
    executor: ExecutorAddress,
    ready: Vector[(ReplicaKey, Long)],
    refused: Vector[(ReplicaKey, String)],
    held: Held
) extends Message

/** What an executor keeps, in numbers: workers' states of all runs, replicas made ready for steps,
  * and blocks published for others. Between plans there are neither replicas nor blocks.
  */
final case class Held(workers: Int, replicas: Int, blocks: Int)

/** The complete list of what an executor is to do and to keep. What is absent is dropped; a list
  * with an older counter than one already seen is ignored.
  *
  * @param runs
  *   runs that live, by Spark's run id
  * @param duties
  *   of the executor that the list is for
  */
final case class Orders(counter: Long, runs: Map[String, LiveRun], duties: Vector[ReplicaDuty])
    extends Message {

  /** Whether blocks and replicas of a step may still be used. */
  def isLive(run: String, step: StepId): Boolean = runs.get(run).exists(_.steps(step))

  def isLive(key: ReplicaKey): Boolean =
    runs.get(key.store.run).exists(run => key.purpose.isLive(run.steps))
}

/** A run that lives.
  *
  * @param checkpointRoot
  *   root folder of its checkpoint
  * @param settled
  *   the newest version that is settled
  * @param steps
  *   steps whose blocks and replicas may still be used
  * @param pullDeadlineMs
  *   how long an executor waits for a block that prepares a replica; None for its own deadline
  */
final case class LiveRun(
    checkpointRoot: String,
    settled: Long,
    steps: Set[StepId],
    pullDeadlineMs: Option[Long] = None
)

/** A worker's commit: where the worker ran, and what the move into it took.
  *
  * @param keys
  *   live keys after the commit
  * @param bytes
  *   written
  */
final case class Committed(
    worker: WorkerId,
    batch: Long,
    executor: ExecutorAddress,
    keys: Long,
    bytes: Long,
    arrivals: Arrivals
) extends Message
