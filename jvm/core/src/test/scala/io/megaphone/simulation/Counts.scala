// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

/** What happened in some schedules.
  *
  * @param deleted
  *   state files that sweeps deleted
  * @param trimmed
  *   records of plan logs that were deleted because a later one stands for them
  * @param takenBack
  *   seals that a run took back, because their batch was never committed
  * @param restored
  *   seals taken back that were restored, because an older run had committed their batch after all
  * @param refused
  *   queries that ended with an error which names the damage of their plan log
  */
final case class Counts(
    schedules: Long = 0,
    batches: Long = 0,
    steps: Long = 0,
    faults: Long = 0,
    deleted: Long = 0,
    trimmed: Long = 0,
    takenBack: Long = 0,
    restored: Long = 0,
    refused: Long = 0
) {
  def +(o: Counts): Counts = Counts(
    schedules + o.schedules,
    batches + o.batches,
    steps + o.steps,
    faults + o.faults,
    deleted + o.deleted,
    trimmed + o.trimmed,
    takenBack + o.takenBack,
    restored + o.restored,
    refused + o.refused
  )

  def summary: String =
    s"$schedules schedules, $batches batches, $steps steps, $faults faults, $takenBack steps taken " +
      s"back, $restored of them restored, $trimmed records trimmed, $refused queries refused after " +
      "damage to their plan logs"
}
