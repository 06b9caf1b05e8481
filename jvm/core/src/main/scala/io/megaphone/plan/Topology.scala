// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import io.megaphone.format.StoreId

/** A stateful operator as the plan log knows it.
  *
  * @param name
  *   Spark's short name of the operator; it decides how the partition key is found in a state key
  * @param stores
  *   names of its stores
  * @param families
  *   names of the column families of its only store, without the default one. A family keeps its
  *   place in this list for the life of the checkpoint: the place, from 1, is its number in records
  */
final case class Operator(
    id: Long,
    name: String,
    stores: Vector[String],
    families: Vector[String] = Vector.empty
) {

  /** Whether the two are the same operator of a query. Column families do not matter. */
  def isSame(other: Operator): Boolean = copy(families = other.families) == other

  /** With the families of these names; new ones are put behind the others. */
  def withFamilies(names: Vector[String]): Operator =
    copy(families = families ++ names.filterNot(families.contains))
}

/** Operators joined by no exchange, which share one routing table. Named by its smallest operator
  * id.
  *
  * @param firstWorkers
  *   partitions of the first batch (n₀), which Spark's readers go by for ever
  * @param isMovable
  *   false over a single partition with no exchange to route by
  */
final case class Group(operators: Vector[Operator], firstWorkers: Int, isMovable: Boolean = true) {
  val id: Long = operators.map(_.id).min

  /** All stores of its operators. */
  lazy val stores: Vector[StoreId] = operators.flatMap(o => o.stores.map(StoreId(o.id, _)))

  /** With the families that the same operators have come to have. */
  def withFamiliesOf(now: Group): Group =
    copy(operators = operators.zip(now.operators).map { case (o, n) => o.withFamilies(n.families) })
}
