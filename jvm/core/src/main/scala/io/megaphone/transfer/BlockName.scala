// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.{StateName, StoreKey}
import io.megaphone.plan.StepId

/** Names a block: bins on their way from one worker to another.
  *
  * @param name
  *   the name that the block brings its receiver to
  * @param step
  *   the step that the block is for
  */
final case class BlockName(
    key: StoreKey,
    source: Int,
    target: Int,
    name: StateName,
    kind: BlockKind,
    step: StepId
) {
  override def toString: String =
    s"megaphone-${key.run}-${key.id.operator}-${key.id.store}-$step-$source-$target-$kind-$name"
}

/** What is in a block. */
sealed abstract class BlockKind(name: String) extends Serializable {
  override def toString: String = name
}

object BlockKind {

  /** The whole bins at one name. */
  case object Image extends BlockKind("image")

  /** What one commit appended to the bins. */
  case object Tail extends BlockKind("tail")
}
