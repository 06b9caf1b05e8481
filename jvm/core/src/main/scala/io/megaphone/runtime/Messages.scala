// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.ExecutorAddress
import io.megaphone.format.ReplicaKey
import io.megaphone.transfer.ReplicaDuty

/** What executors and the driver tell each other. Losing a message costs time, never correctness. */
sealed trait Message extends Serializable

/** An executor's periodic report; the answer is `Orders`.
  *
  * @param ready
  *   version that each prepared copy has
  * @param refused
  *   copies that there was no room for when they were last tried, and the reason
  */
final case class Report(
    executor: ExecutorAddress,
    ready: Vector[(ReplicaKey, Long)],
    refused: Vector[(ReplicaKey, String)],
    held: Held
) extends Message

/** What an executor keeps, in numbers: workers' states of whatever run, copies made ready for
  * steps, and blocks published for others. Between plans there are neither copies nor blocks.
  */
final case class Held(workers: Int, copies: Int, blocks: Int)

/** The complete list of what an executor is to do and to keep; what is absent is dropped, what is
  * older than the counter already seen is ignored.
  *
  * @param runs
  *   runs that live
  * @param steps
  *   steps whose blocks and copies may still be used
  */
final case class Orders(
    counter: Long,
    runs: Map[String, LiveRun],
    duties: Vector[ReplicaDuty],
    steps: Set[String]
) extends Message

/** A run that lives: the root folder of its checkpoint, and the newest version that is settled. */
final case class LiveRun(checkpointRoot: String, settled: Long)

/** A worker's commit. It tells the driver where the worker ran, and what the move into it took. */
final case class Committed(
    run: String,
    operator: Long,
    store: String,
    worker: Int,
    batch: Long,
    executor: ExecutorAddress,
    keys: Long,
    bytes: Long,
    binsIn: Int,
    binsRelabelled: Int,
    binsFromPeer: Int,
    binsFromCheckpoint: Int,
    bytesFromPeer: Long,
    bytesFromCheckpoint: Long,
    waitMs: Long,
    isRecovered: Boolean
) extends Message
