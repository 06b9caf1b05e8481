// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import io.megaphone.format.ExecutorAddress
import io.megaphone.plan.{Group, RoutingTable, StepId}
import io.megaphone.protocol.Protocol._
import io.megaphone.state.ReplicaKey
import io.megaphone.transfer.ReplicaDuty

/** The duties of executors, as they follow from the last decision. */
object Duties {

  /** All replicas that executors must have ready, each with the executor's id. Executors drop the
    * replicas that no duty names.
    *
    * @param addressOf
    *   the address of an executor's blocks, if it is known
    */
  def apply(
      state: State,
      addressOf: String => Option[ExecutorAddress]
  ): Vector[(String, ReplicaDuty)] = for {
    decision <- state.decision.toVector
    announced <- decision.announced
    if announced.mode.isPreparedAhead
    group = state.group(announced.id.group)
    table = decision.after(group.id)
    executors = decision.batch.executorsOf(group.id)
    needed <- replicas(state.run, announced, decision.batch, group, table)
    executor <- executors.lift(Announced.targetOf(needed.key)).toVector
    store = needed.key.store.id
    image <- announced.images.get((store, needed.key.source)).toVector
  } yield executor -> ReplicaDuty(
    needed.key,
    needed.bins,
    table.bins,
    image,
    decision.batch.idsOf(store).nameOf(decision.batch.number, needed.key.source),
    decision.before(group.id).contentHash,
    executors.lift(needed.key.source).flatMap(addressOf),
    announced.sources.lift(needed.key.source).flatMap(addressOf),
    state.progressAt
  )

  /** The steps whose blocks and replicas may still be used: the announced ones, and those that are
    * sealed for the batch last planned.
    */
  def liveSteps(state: State): Set[StepId] =
    state.decision.fold(Set.empty[StepId])(d => (d.sealedSteps ++ d.announced).map(_.id).toSet)

  /** The replicas that a step needs: one for each store and route. */
  private[protocol] def replicas(
      run: String,
      announced: Announced,
      batch: Batch,
      group: Group,
      table: RoutingTable
  ): Vector[NeededReplica] = for {
    route <- Route.of(announced.step, table, batch.executorsOf(group.id))
    store <- group.stores
  } yield NeededReplica(
    ReplicaKey.forStep(store.in(run), route.source, route.target, announced.id),
    route.bins
  )
}
