// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** At once: the step takes effect with the next batch, and what a batch needs of the bins comes as
  * it needs it; the rest comes in the background (Meces, section 4, USENIX ATC 22).
  *
  * The batch that announces the step has its sources look at which keys the bins have, in the
  * background. The step waits for that. Each batch until then has them publish offers: which bins
  * they have, at what name.
  */
private[plan] object OnDemandMode extends TransferMode("on-demand") {
  override def announcedSteps(window: Int): Int = 1
  override def isPreparedAhead: Boolean = false
  override def publishesAfterCommit: AfterCommit = AfterCommit.Offers
  override def isOnDemand: Boolean = true
}
