// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import io.megaphone.placement.Member
import io.megaphone.protocol.PlanStatus
import io.megaphone.runtime.Loss
import io.megaphone.view.{DrainRow, RelocationRow}

/** A run of a query.
  *
  * @param provider
  *   the other provider that has its state; None if it is in bins
  */
final case class QueryFacts(
    run: String,
    id: String,
    name: Option[String],
    provider: Option[String],
    startedMs: Long
) {
  def title: String = name.filter(_.nonEmpty).getOrElse("unnamed query")
}

/** How a run ended.
  *
  * @param error
  *   what it failed with; None if it was stopped
  */
final case class EndFacts(timeMs: Long, error: Option[String])

final case class WorkerFacts(
    worker: Int,
    executor: Option[String],
    bins: Int,
    keys: Long,
    bytes: Long,
    standbys: Int = 0,
    binsIncomplete: Int = 0,
    bytesToCome: Long = 0
)

/** Where the bins of a group of operators are.
  *
  * @param sizes
  *   of each bin by each measure; None where it is not known
  * @param moving
  *   the bins that move with the next steps, and the workers they go to
  * @param arrived
  *   the bins that came with the last step
  */
final case class GroupFacts(
    operator: Long,
    name: String,
    batch: Option[Long],
    workerOfBin: Vector[Int],
    sizes: Map[Measure, Vector[Option[Long]]],
    moving: Map[Int, Int],
    arrived: Set[Int],
    workers: Vector[WorkerFacts]
) {
  def keys: Long = workers.map(_.keys).sum
  def bytes: Long = workers.map(_.bytes).sum
  def sizeOf(bin: Int, measure: Measure): Option[Long] = sizes(measure).lift(bin).flatten
}

final case class PlanFacts(
    id: String,
    status: String,
    reason: Option[String],
    strategy: String,
    mode: String,
    steps: Int,
    stepsDone: Int,
    moves: Int,
    movesDone: Int,
    batchesLeft: Int,
    batches: Vector[Long],
    workersBefore: Vector[Int],
    workersAfter: Vector[Int],
    seenAt: Option[Long]
) {
  def isOpen: Boolean = PlanFacts.Open(status)
}

object PlanFacts {
  private val Open = PlanStatus.all.filterNot(_.isFinal).map(_.name).toSet
}

final case class StepFacts(
    plan: String,
    operator: Long,
    step: Int,
    batch: Long,
    moved: Int,
    stayed: Int,
    bytesFromPeer: Long,
    bytesFromCheckpoint: Long,
    waitMs: Long
)

final case class RecoveryFacts(batch: Long, workers: Int, bytes: Long, waitMs: Long)

/** What a batch brought of incomplete bins. */
final case class DemandFacts(batch: Long, subBins: Int, waitMs: Long)

/** A batch, as Spark reports it. */
final case class BatchFacts(batch: Long, durationMs: Long, rows: Long)

final case class ExecutorFacts(
    executor: String,
    host: String,
    replicas: Int,
    blocks: Int,
    bytes: Long,
    bytesOnDisk: Long,
    budget: Long,
    state: String = ""
)

/** All that is known of a run; lists are in the order of time. */
final case class RunFacts(
    query: QueryFacts,
    end: Option[EndFacts],
    groups: Vector[GroupFacts],
    plans: Vector[PlanFacts],
    steps: Vector[StepFacts],
    recoveries: Vector[RecoveryFacts],
    batches: Vector[BatchFacts],
    executors: Vector[ExecutorFacts],
    relocations: Vector[RelocationRow] = Vector.empty,
    losses: Vector[Loss] = Vector.empty,
    drains: Vector[DrainRow] = Vector.empty,
    demands: Vector[DemandFacts] = Vector.empty
) {
  def keys: Long = groups.map(_.keys).sum
  def bytes: Long = groups.map(_.bytes).sum
  def openPlan: Option[PlanFacts] = plans.find(_.isOpen)
  def workers: Vector[WorkerFacts] = groups.flatMap(_.workers)

  /** How long the task that waited longest at a batch waited for bins. */
  def waitMs(batch: Long): Long = waits.getOrElse(batch, 0L)

  /** How many workers a batch placed on other executors. */
  def relocatedAt(batch: Long): Int = relocated.getOrElse(batch, 0)

  /** What was lost while a batch ran, or after it. */
  def lossesAt(batch: Long): Vector[Loss] = losses.filter(_.batch == batch)

  /** How many bins moved at a batch. */
  def movedAt(batch: Long): Int = moved.getOrElse(batch, 0)

  /** How many sub-bins of incomplete bins a batch brought. */
  def subBinsAt(batch: Long): Int = brought.getOrElse(batch, 0)

  private lazy val brought: Map[Long, Int] = demands.map(d => d.batch -> d.subBins).toMap
  private lazy val relocated: Map[Long, Int] =
    relocations.flatMap(_.batch).groupMapReduce(identity)(_ => 1)(_ + _)
  private lazy val moved: Map[Long, Int] =
    steps.groupMapReduce(_.batch)(_.moved)(_ + _)
  private lazy val waits: Map[Long, Long] =
    (steps.map(s => s.batch -> s.waitMs) ++ recoveries.map(r => r.batch -> r.waitMs) ++
      demands.map(d => d.batch -> d.waitMs))
      .groupMapReduce(_._1)(_._2)(_ max _)

  /** The executors that have workers, in the order of their ids. */
  def hosts: Vector[String] = workers.flatMap(_.executor).distinct.sorted(Member.order)
}
