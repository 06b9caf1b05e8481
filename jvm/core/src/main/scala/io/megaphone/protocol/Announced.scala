// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import io.megaphone.format.{StateName, StoreId}
import io.megaphone.plan.{RoutingTable, Step, StepId, TransferMode}
import io.megaphone.state.{ForStep, ReplicaKey}

/** An announced step: sources publish blocks for it, and targets make replicas of them; or sources
  * survey what it will take.
  *
  * @param since
  *   the batch that announced the step; the images are of the state that it reads
  * @param images
  *   names of the images, by store and source worker; of those that have none, files serve
  * @param sources
  *   ids of the executors that the workers were placed on then
  * @param replicas
  *   how far each of the step's replicas is, as the executors reported
  */
final case class Announced(
    id: StepId,
    step: Step,
    mode: TransferMode,
    since: Long,
    images: Map[(StoreId, Int), StateName],
    sources: Vector[String] = Vector.empty,
    replicas: Map[ReplicaKey, ReplicaState] = Map.empty
) {

  /** Whether its replicas are made of files: it moves more than images could bring in time, or bins
    * that have just come to their sources.
    */
  def isOfFiles: Boolean = mode.isPreparedAhead && images.isEmpty

  def withReplica(key: ReplicaKey, state: ReplicaState): Announced =
    copy(replicas = replicas.updated(key, state))

  /** The step without the replicas of an executor that is lost. */
  def without(executor: String): Announced =
    copy(replicas = replicas.filterNot(_._2.executor == executor))

  /** The step with those replicas only that are where their targets are now, and those surveys that
    * are where their sources are.
    *
    * @param executors
    *   ids of the workers' executors
    */
  def at(executors: Vector[String]): Announced = copy(replicas = replicas.filter {
    case (key, state: ReplicaState.Surveyed) =>
      executors.lift(key.source).contains(state.executor)
    case (key, state) => executors.lift(Announced.targetOf(key)).contains(state.executor)
  })

  /** The step with these replicas only. */
  def only(keys: Set[ReplicaKey]): Announced =
    copy(replicas = replicas.filter { case (key, _) => keys(key) })

  def isRefused(key: ReplicaKey): Boolean = replicas.get(key).exists {
    case _: ReplicaState.Refused => true
    case _ => false
  }

  /** Whether a replica has reached a version, or a later one; or what is surveyed instead is so. */
  def isReady(key: ReplicaKey, version: Long): Boolean = replicas.get(key).exists {
    case ready: ReplicaState.Ready => ready.version >= version
    case _: ReplicaState.Surveyed => true
    case _: ReplicaState.Refused => false
  }

  /** The step without the moves that have no room at their targets.
    *
    * @param table
    *   the table before the step
    */
  def withRoom(table: RoutingTable): Announced = {
    val full = refusals.map { case (key, _) => key.source -> Announced.targetOf(key) }.toSet
    copy(step =
      step.copy(moves = step.moves.filterNot(m => full(table.workerOf(m.bin) -> m.target)))
    )
  }

  /** Why moves are left out; None if none is. */
  def noRoom: Option[String] = refusals.headOption.map { case (key, refused) =>
    s"Executor ${refused.executor} has no room for the bins that are to move to worker " +
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

  /** The replica has reached a version. */
  final case class Ready(version: Long, executor: String) extends ReplicaState

  /** There was no room for the replica. */
  final case class Refused(reason: String, executor: String) extends ReplicaState

  /** Of a step on demand, which has no replicas: its bins are surveyed at the source. */
  final case class Surveyed(executor: String) extends ReplicaState
}
