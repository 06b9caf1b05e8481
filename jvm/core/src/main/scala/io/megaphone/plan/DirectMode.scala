// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** At the boundary: the batch of the step waits for whole bins (Megaphone, section 3.3, PVLDB
  * 12(9)).
  *
  * The batch before the step announces it, and its sources publish images of what they have just
  * committed. The next batch pulls them.
  */
private[plan] object DirectMode extends TransferMode("direct") {
  override def announcedSteps(window: Int): Int = 1
  override def isPreparedAhead: Boolean = false
  override def publishesAfterCommit: AfterCommit = AfterCommit.Images
}
