// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import io.megaphone.format.StoreKey
import io.megaphone.plan.StepId

/** Names a replica: bins of worker `source` that another executor keeps.
  *
  * @param purpose
  *   the reason for the replica; for another purpose there is another replica
  */
final case class ReplicaKey(store: StoreKey, source: Int, purpose: ReplicaPurpose) {
  override def toString: String = s"$store, of worker $source $purpose"
}

object ReplicaKey {

  /** The replica that a step needs. */
  def forStep(store: StoreKey, source: Int, target: Int, step: StepId): ReplicaKey =
    ReplicaKey(store, source, ForStep(step, target))
}

/** Why a replica exists. */
sealed trait ReplicaPurpose extends Serializable {

  /** Whether it is still wanted while these steps of its run are announced or under way. */
  def isLive(steps: Set[StepId]): Boolean
}

/** The replica is prepared ahead for one step, for its target worker. It ends with the step. */
final case class ForStep(step: StepId, target: Int) extends ReplicaPurpose {
  override def isLive(steps: Set[StepId]): Boolean = steps(step)
  override def toString: String = s"for worker $target in step $step"
}
