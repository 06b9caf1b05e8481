// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import io.megaphone.format.{StateName, StoreKey}

/** A block of bins on their way from one worker to another.
  *
  * @param name
  *   what the block brings its taker to
  * @param step
  *   the step it is for
  */
final case class BlockName(
    key: StoreKey,
    source: Int,
    target: Int,
    name: StateName,
    isImage: Boolean,
    step: String
) {
  override def toString: String =
    s"megaphone-${key.run}-${key.operator}-${key.store}-$step-$source-$target-${if (isImage) "image"
      else "tail"}-$name"
}
