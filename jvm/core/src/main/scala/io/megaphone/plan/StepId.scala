// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** Names a step: the plan, and its index in the plan's steps for the group. */
final case class StepId(planId: String, group: Long, index: Int) {
  override def toString: String = s"$planId.$group.$index"
}
