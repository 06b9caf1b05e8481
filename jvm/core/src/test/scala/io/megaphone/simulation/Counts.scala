// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

/** What happened in some schedules.
  *
  * @param faults
  *   how often each has struck
  * @param deleted
  *   state files that sweeps deleted
  * @param trimmed
  *   records of plan logs that were deleted because a later one stands for them
  * @param takenBack
  *   seals that a run took back, because their batch was never committed
  * @param restored
  *   seals taken back that were restored, because an older run had committed their batch after all
  * @param promoted
  *   workers that went on from a standby
  * @param relocated
  *   workers that went to another executor
  * @param completed
  *   how often the rest of what a step on demand left elsewhere came to its end
  * @param released
  *   executors that were ended once they were empty
  * @param cordoned
  *   executors that got no more tasks although a task ran there
  * @param longestDrain
  *   how many batches an executor took at most to get empty, once faults had stopped
  * @param missed
  *   executors that died while all of their workers were stood by for
  * @param refused
  *   queries that ended with an error which names the damage of their plan log
  */
final case class Counts(
    schedules: Long = 0,
    batches: Long = 0,
    steps: Long = 0,
    faults: Map[Fault, Long] = Map.empty,
    deleted: Long = 0,
    trimmed: Long = 0,
    takenBack: Long = 0,
    restored: Long = 0,
    promoted: Long = 0,
    relocated: Long = 0,
    completed: Long = 0,
    released: Long = 0,
    cordoned: Long = 0,
    longestDrain: Long = 0,
    missed: Long = 0,
    refused: Long = 0
) {
  def +(o: Counts): Counts = Counts(
    schedules + o.schedules,
    batches + o.batches,
    steps + o.steps,
    o.faults.foldLeft(faults) { case (all, (fault, n)) =>
      all.updated(fault, all.getOrElse(fault, 0L) + n)
    },
    deleted + o.deleted,
    trimmed + o.trimmed,
    takenBack + o.takenBack,
    restored + o.restored,
    promoted + o.promoted,
    relocated + o.relocated,
    completed + o.completed,
    released + o.released,
    cordoned + o.cordoned,
    math.max(longestDrain, o.longestDrain),
    missed + o.missed,
    refused + o.refused
  )

  def summary: String =
    s"$schedules schedules, $batches batches, $steps steps, ${faults.values.sum} faults, " +
      s"$takenBack steps taken back, $restored of them restored, $promoted standbys promoted, " +
      s"$relocated workers relocated, $completed rests complete, $released executors released, " +
      s"$cordoned cordoned with a task, " +
      s"$longestDrain batches of the longest drain, " +
      s"$missed of those lost were stood by for, $trimmed records trimmed, " +
      s"$refused queries refused after damage to their plan logs"

  /** How often each fault has struck, the rarest first. */
  def strikes: String = faults.toVector.sortBy(_._2).map { case (f, n) => s"$f $n" }.mkString(", ")

  /** The kinds of events that have not happened. */
  def missing: Vector[String] = {
    val numbers = Vector(
      "steps" -> steps,
      "deleted" -> deleted,
      "trimmed" -> trimmed,
      "takenBack" -> takenBack,
      "restored" -> restored,
      "promoted" -> promoted,
      "relocated" -> relocated,
      "completed" -> completed,
      "released" -> released,
      "cordoned" -> cordoned,
      "missed" -> missed,
      "refused" -> refused
    )
    numbers.filter(_._2 == 0).map(_._1) ++ Fault.All.filterNot(faults.contains).map(_.toString)
  }
}
