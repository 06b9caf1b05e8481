// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.{StateName, StoreKey}
import io.megaphone.plan.StepId
import io.megaphone.state.ReplicaKey

/** Names a block: bins on their way from one worker to another.
  *
  * @param name
  *   the name of the source's state that the block leads to
  * @param step
  *   the step that moves the bins
  * @param part
  *   the number of this part, from 0: what is large travels in several
  */
final case class BlockName(
    key: StoreKey,
    source: Int,
    target: Int,
    name: StateName,
    kind: BlockKind,
    step: StepId,
    part: Int = 0
) {

  /** The replica that the block is for. */
  def replica: ReplicaKey = ReplicaKey.forStep(key, source, target, step)

  override def toString: String =
    s"megaphone-${key.run}-${key.id.operator}-${key.id.store}-$step-$source-$target-$kind-$name-" +
      s"$part"
}

/** The kind of a block's contents. */
sealed abstract class BlockKind(name: String) extends Serializable {
  override def toString: String = name
}

object BlockKind {

  /** All records of the bins at one name. */
  case object Image extends BlockKind("image")

  /** The records that one commit appended to the bins. */
  case object Tail extends BlockKind("tail")

  /** No records: which bins there are at one name. */
  case object Offer extends BlockKind("offer")
}
