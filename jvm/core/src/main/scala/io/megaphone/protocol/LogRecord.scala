// SPDX-License-Identifier: Apache-2.0
package io.megaphone.protocol

import io.megaphone.plan.{Move, Step, TransferMode}
import io.megaphone.routing.RoutingTable

/** A stateful operator as the plan log knows it.
  *
  * @param name
  *   Spark's short name of the operator, which tells how a state key leads to the partition key
  * @param stores
  *   names of its stores
  * @param families
  *   names of the column families of its only store, beside the default one, where it has any: each keeps its place for the life of the checkpoint, which
  *   is its number in the records of the logs, from 1
  */
final case class Operator(id: Long, name: String, stores: Vector[String], families: Vector[String] = Vector.empty) {

  /** Whether the two are the same operator of a query, whatever column families it has come to have. */
  def isSame(other: Operator): Boolean = copy(families = other.families) == other

  /** With families that it has not had yet, behind the others. */
  def withFamilies(names: Vector[String]): Operator = copy(families = families ++ names.filterNot(families.contains))
}

/** Operators joined by no exchange, which share one routing table. Named by its smallest operator id.
  *
  * @param firstWorkers
  *   partitions of the first batch (n₀), which Spark's readers go by for ever
  * @param isMovable
  *   false over a single partition with no exchange to route by
  */
final case class Group(operators: Vector[Operator], firstWorkers: Int, isMovable: Boolean = true) {
  val id: Long = operators.map(_.id).min

  /** With the families that the same operators have come to have. */
  def withFamiliesOf(now: Group): Group = copy(operators = operators.zip(now.operators).map { case (o, n) => o.withFamilies(n.families) })
}

/** One record of the plan log: a numbered sequence in which nothing is overwritten. */
sealed trait LogRecord

object LogRecord {

  /** Opens a run. Voids what earlier runs sealed for batches after `firstBatch`.
    *
    * @param run
    *   Spark's run id
    * @param firstBatch
    *   the first batch that this run plans
    * @param checkpointFormat
    *   Spark's checkpoint format version, 1 or 2
    * @param tables
    *   by group: the table in force before any seal of `firstBatch`
    */
  final case class Started(run: String, firstBatch: Long, checkpointFormat: Int, bins: Int, groups: Vector[Group], tables: Map[Long, RoutingTable])
      extends LogRecord

  /** An intention: steps for groups. */
  final case class Submitted(plan: Intention) extends LogRecord

  /** Ends an intention: steps not sealed yet will not be.
    *
    * @param reason
    *   why it cannot go on; None where a user has ended it
    */
  final case class Cancelled(planId: String, reason: Option[String] = None) extends LogRecord

  /** A fact: what takes effect at `batch`, and the whole tables that result, by group. */
  final case class Sealed(run: String, batch: Long, steps: Vector[SealedStep], tables: Map[Long, RoutingTable]) extends LogRecord
}

/** A step that has its batch.
  *
  * @param moves
  *   what takes effect: all moves of the step, but for those that there was no room for where they lead to
  * @param noRoom
  *   why bins stay where they are, if some do
  */
final case class SealedStep(step: StepId, moves: Vector[Move], noRoom: Option[String] = None)

/** Names a step: the plan, and its index in the plan's steps for the group. */
final case class StepId(planId: String, group: Long, index: Int) {
  override def toString: String = s"$planId.$group.$index"
}

/** A plan as submitted: for each group that it concerns, its steps in order.
  *
  * @param strategy
  *   how the moves were grouped, as text
  */
final case class Intention(id: String, steps: Map[Long, Vector[Step]], strategy: String, mode: TransferMode) {
  def stepsCount: Int = steps.valuesIterator.map(_.size).sum
  def movesCount: Int = steps.valuesIterator.flatten.map(_.moves.size).sum
}
