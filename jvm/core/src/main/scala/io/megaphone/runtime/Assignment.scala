// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import io.megaphone.format.ExecutorAddress
import io.megaphone.plan.{Operator, RoutingTable, TransferMode}
import io.megaphone.protocol.Protocol

/** The routing tables of a batch for one group: of the batch before, and of this one. Broadcast,
  * and made anew only when they change.
  */
final case class Tables(before: RoutingTable, after: RoutingTable)

/** What the tasks of a batch must agree on, for one group, beside the tables.
  *
  * @param run
  *   Spark's run id
  * @param batch
  *   the batch, which reads the state of the same version
  * @param ids
  *   by operator and store: checkpoint id of each worker at that version; empty under checkpoint
  *   format v1
  * @param incoming
  *   where a step's source workers run
  * @param outgoing
  *   steps to come, whose sources publish
  */
final case class Assignment(
    run: String,
    group: Long,
    operators: Vector[Operator],
    batch: Long,
    ids: Map[(Long, String), Vector[String]],
    incoming: Option[Incoming],
    outgoing: Vector[Outgoing],
    label: String
) {
  override def toString: String = label
}

/** A step that takes effect with this batch. */
final case class Incoming(step: String, addresses: Map[Int, ExecutorAddress])

/** A step to come: what of it travels between executors.
  *
  * @param withImage
  *   whether this batch is the one to publish images
  */
final case class Outgoing(
    step: String,
    mode: TransferMode,
    withImage: Boolean,
    routes: Vector[Protocol.Route]
)
