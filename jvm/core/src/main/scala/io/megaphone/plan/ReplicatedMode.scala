// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** To where executors stand by (Rhino, section 3.2, SIGMOD 2020): where the target's executor
  * stands by for the source nothing travels but the newest tails, and other pairs are prepared.
  *
  * Mode *prepared* uses standbys as well. This one is refused for a query that has none, so who
  * asks for it knows that most bins take no copy.
  */
private[plan] object ReplicatedMode extends PreparedAhead("replicated") {
  override def needsStandbys: Boolean = true
}
