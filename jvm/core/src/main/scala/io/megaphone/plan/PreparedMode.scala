// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** A mode whose bytes travel ahead, as those of [[PreparedMode]]. */
private[plan] abstract class PreparedAhead(name: String) extends TransferMode(name) {
  override def announcedSteps(window: Int): Int = window
  override def isPreparedAhead: Boolean = true
  override def publishesAfterCommit: AfterCommit = AfterCommit.Tails
}

/** Ahead, in the background: only the tail of the last batch is left for the boundary.
  *
  * The sources publish images of their settled bins as the step is announced, then one tail a
  * batch. The targets make replicas of them. The step waits until the replicas are ready.
  */
private[plan] object PreparedMode extends PreparedAhead("prepared")
