// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import io.megaphone.checkpoint.Committer
import io.megaphone.format.{DeltaFile, StoreId}
import io.megaphone.log.RowTime
import io.megaphone.plan.{Group, Operator}
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.PlacementSettings

/** The fixed facts of one schedule.
  *
  * @param hosts
  *   how many hosts the executors are on
  * @param isV2
  *   whether the checkpoint has unique ids. Then the query need not be deterministic, and each
  *   attempt writes other values; else all attempts write the same, in another order
  * @param retained
  *   Spark's `minBatchesToRetain`
  * @param behindMax
  *   how far a holding may be behind before it is dropped
  * @param trimRecords
  *   records of the plan log from which on it is trimmed
  * @param placement
  *   where workers and standbys are placed
  * @param isElastic
  *   whether the user has executors emptied, and workers taken elsewhere
  * @param dueShare
  *   thousandths of all rows that are due in a batch at most
  * @param onDemandShare
  *   how many of the plans are on demand, from 0 to 1
  * @param areTimesApart
  *   whether a group's second store has the times of its first one, as a join may have
  * @param areTimesInOrder
  *   whether keys are ordered by their times, as timers are; else a value has the time
  * @param copiedPerSecond
  *   the most bytes that copies may take in a second, 0 for any number: if they are few, replicas
  *   are made of files
  * @param batches
  *   batches to commit before faults stop
  */
final case class Setup(
    bins: Int,
    keys: Int,
    rows: Int,
    groups: Vector[Group],
    executors: Int,
    workersMax: Int,
    isV2: Boolean,
    retained: Int,
    behindMax: Int,
    batches: Int,
    sweepEvery: Int,
    trimRecords: Int,
    placement: PlacementSettings,
    isElastic: Boolean,
    settings: Protocol.Settings,
    limits: Committer.Limits,
    faults: Map[Fault, Double],
    dueShare: Int,
    onDemandShare: Double,
    areTimesApart: Boolean,
    areTimesInOrder: Boolean,
    hosts: Int,
    copiedPerSecond: Long
) {

  /** Standbys make images rare: a step takes them where there are any. */
  def withoutStandbys: Setup =
    copy(placement = placement.copy(replicas = 0, isAuto = false), isElastic = false)

  /** Each worker is stood by for. */
  def withStandbys: Setup =
    copy(placement = placement.copy(replicas = math.max(1, placement.replicas)))

  /** These faults strike, and often. */
  def withFaults(of: Fault*): Setup = copy(faults = faults ++ of.map(f => f -> f.chance * 2.5))

  /** Replicas are made of files, slice by slice. */
  def withSlices: Setup = withoutStandbys.copy(copiedPerSecond = 1)

  /** All plans are on demand. */
  def onDemand: Setup = copy(onDemandShare = 1)

  /** The user has executors emptied. */
  def withDrains: Setup = copy(isElastic = true, executors = math.max(3, executors))

  /** Copies always have room. */
  def withRoom: Setup = copy(faults = faults -- Fault.OfRoom)

  /** Some executors never have room for copies. */
  def withFullExecutors: Setup = copy(faults = faults + (Fault.ExecutorHasNoRoom -> 0.3))

  /** In each batch some rows are due. */
  def withScans: Setup = if (dueShare == 0) copy(dueShare = 50) else this

  val stores: Vector[StoreId] = groups.flatMap(_.stores)
  def storesOf(group: Long): Vector[StoreId] = groups.filter(_.id == group).flatMap(_.stores)

  /** The stores of a group that are scanned in each batch for what is due, each with the one that
    * has the times.
    */
  def scansOf(group: Long): Vector[(StoreId, StoreId)] = storesOf(group) match {
    case _ if dueShare == 0 => Vector.empty
    case first +: second +: _ if areTimesApart => Vector(first -> second)
    case all => all.map(store => store -> store)
  }

  /** Where rows have their times. */
  def rowTime: RowTime = if (areTimesInOrder) Cells.TimesInOrder else Cells.TimesInValues

  /** The time of a key's row. */
  def timeOf(key: Int, stamp: Long): Long = if (areTimesInOrder) Cells.timeOf(key) else stamp

  /** The time up to which rows are due in a batch. */
  def dueUntil(batch: Long): Long = {
    val share = (Dice.mix(batch) >>> 1) % (dueShare + 1)
    Long.MinValue + share * (Long.MaxValue / 500)
  }
}

object Setup {

  def of(dice: Dice): Setup = {
    val bins = 4 << dice.below(if (dice.chance(0.2)) 5 else 3)
    val groupCount = if (dice.chance(0.3)) 2 else 1
    val isLong = dice.chance(0.05)
    val isFree = dice.chance(0.1)
    val workersMax = dice.between(2, 6)
    val isLogDamaged = dice.chance(0.15)
    val faults = Fault.All
      .filter(f => !isFree && dice.chance(0.5) && (isLogDamaged || !Fault.DamagesLog(f)))
      .map(f => f -> f.chance * (if (dice.chance(0.3)) 2.5 else 1.0))
      .toMap
    Setup(
      bins = bins,
      keys = dice.between(2, 3 * bins),
      rows = dice.between(2, 20),
      groups = Vector.tabulate(groupCount)(g => group(dice, g * 10L, dice.between(1, workersMax))),
      executors = dice.between(1, 5),
      workersMax = workersMax,
      isV2 = dice.chance(0.6),
      retained = dice.between(2, 5),
      behindMax = dice.between(1, 6),
      batches = if (isLong) dice.between(30, 45) else dice.between(5, 16),
      sweepEvery = dice.between(1, 6),
      trimRecords = if (dice.chance(0.5)) dice.between(2, 8) else 100,
      placement = PlacementSettings(
        replicas = if (dice.chance(0.5)) dice.between(1, 2) else 0,
        isAuto = dice.chance(0.3),
        settleBatches = dice.below(3).toLong,
        pilotBatches = dice.below(3).toLong,
        patienceBatches = dice.between(1, 6).toLong
      ),
      isElastic = dice.chance(0.5),
      settings = Protocol.Settings(
        windowSteps = dice.between(1, 4),
        patienceBatches = dice.between(2, 6).toLong,
        stepsPerBatch = if (dice.chance(0.3)) dice.between(2, 4) else 1
      ),
      limits = Committer
        .Limits(
          framesMax = dice.between(2, 12),
          slackBytes = dice.between(64, 1024).toLong,
          pieceBytes = if (dice.chance(0.5)) dice.between(24, 100) else DeltaFile.PieceBytes
        ),
      faults = faults,
      onDemandShare = 0.3,
      dueShare = if (dice.chance(0.5)) dice.between(1, 300) else 0,
      areTimesApart = dice.chance(0.5),
      areTimesInOrder = dice.chance(0.3),
      hosts = dice.between(1, 4),
      copiedPerSecond = if (dice.chance(0.3)) dice.between(1, 20).toLong else 0
    )
  }

  private def group(dice: Dice, firstId: Long, workers: Int): Group = {
    val operators = Vector.tabulate(if (dice.chance(0.4)) 2 else 1) { o =>
      Operator(
        firstId + o,
        s"operator$o",
        if (dice.chance(0.25)) Vector("left", "right") else Vector("default")
      )
    }
    Group(operators, workers)
  }
}
