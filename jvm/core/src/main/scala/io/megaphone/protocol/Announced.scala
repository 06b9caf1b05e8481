// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import io.megaphone.format.{StateName, StoreId}
import io.megaphone.plan.{RoutingTable, Step, StepId, TransferMode}
import io.megaphone.state.{ForStep, ReplicaKey}

/** An announced step: its bytes are on their way.
  *
  * @param since
  *   the batch that announced it, whose settled state the images are of
  * @param images
  *   names of the images, by store and source worker
  * @param replicas
  *   how far each of its replicas is, as its executor reported
  */
final case class Announced(
    id: StepId,
    step: Step,
    mode: TransferMode,
    since: Long,
    images: Map[(StoreId, Int), StateName],
    replicas: Map[ReplicaKey, ReplicaState] = Map.empty
) {

  def withReplica(key: ReplicaKey, state: ReplicaState): Announced =
    copy(replicas = replicas.updated(key, state))

  /** Without the replicas of an executor that is lost. */
  def without(executor: String): Announced =
    copy(replicas = replicas.filterNot(_._2.executor == executor))

  def isRefused(key: ReplicaKey): Boolean = replicas.get(key).exists {
    case _: ReplicaState.Refused => true
    case _ => false
  }

  /** Whether a replica has reached a version. */
  def isReady(key: ReplicaKey, version: Long): Boolean = replicas.get(key).exists {
    case ready: ReplicaState.Ready => ready.version >= version
    case _ => false
  }

  /** Without the moves that have no room at their targets.
    *
    * @param table
    *   that the step begins with
    */
  def withRoom(table: RoutingTable): Announced = {
    val full = refusals.map { case (key, _) => key.source -> Announced.targetOf(key) }.toSet
    copy(step =
      step.copy(moves = step.moves.filterNot(m => full(table.workerOf(m.bin) -> m.target)))
    )
  }

  /** Why moves are left out, if some are. */
  def noRoom: Option[String] = refusals.headOption.map { case (key, refused) =>
    s"Executor ${refused.executor} has no room for what is to move to worker " +
      s"${Announced.targetOf(key)}: ${refused.reason}"
  }

  private def refusals: Vector[(ReplicaKey, ReplicaState.Refused)] =
    replicas.iterator.collect { case (key, r: ReplicaState.Refused) => key -> r }.toVector
}

object Announced {
  private[protocol] def targetOf(key: ReplicaKey): Int = key.purpose match {
    case ForStep(_, target) => target
  }
}

/** How far a replica is. */
sealed trait ReplicaState {

  /** Id of the executor that reported it. */
  def executor: String
}

object ReplicaState {

  /** It has reached a version. */
  final case class Ready(version: Long, executor: String) extends ReplicaState

  /** There is no room for it, for now. */
  final case class Refused(reason: String, executor: String) extends ReplicaState
}
