// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** A worker's state at one version. Equal names mean equal content, for ever.
  *
  * @param version
  *   number of committed batches
  * @param id
  *   Spark's unique checkpoint id under checkpoint format v2, [[StateName.FixedId]] under v1
  */
final case class StateName(version: Long, id: String) {
  override def toString: String = if (id.isEmpty) version.toString else s"${version}_$id"
}

object StateName {

  /** The one id of checkpoint format v1, which knows no others. */
  val FixedId = ""
}

/** The checkpoint ids of the workers of a store at one version. Empty under checkpoint format v1.
  *
  * A worker that is new at that version has no id of its own: its name then has the fixed id, in
  * every attempt alike.
  */
final case class VersionIds(ids: Vector[String]) {

  /** Whether the state is of checkpoint format v1. */
  def isFixed: Boolean = ids.isEmpty

  /** The name of a worker's state. */
  def nameOf(version: Long, worker: Int): StateName =
    StateName(version, ids.lift(worker).getOrElse(StateName.FixedId))
}

object VersionIds {
  val Fixed: VersionIds = VersionIds(Vector.empty)
}

/** A file of one store of one operator. The name is relative to the operator's folder, so a copied
  * or renamed checkpoint stays whole.
  */
final case class FileName(worker: Int, name: StateName) {

  /** `<worker>/<version>[_<id>].delta`. */
  override def toString: String = s"$worker/$name.delta"
}

object FileName {
  private val Pattern = """(0|[1-9]\d*)(?:_([^.]+))?\.delta""".r

  /** The name of a file in a worker's folder, or None if it is not ours. */
  def parse(worker: Int, file: String): Option[FileName] = file match {
    case Pattern(version, id) if version.length < 19 =>
      Some(FileName(worker, StateName(version.toLong, Option(id).getOrElse(StateName.FixedId))))
    case _ => None
  }
}

/** Identifies one writing of a file: under checkpoint format v1 a late attempt may write a file
  * again under its old name.
  */
final case class WriterId(high: Long, low: Long)

/** One store of one stateful operator of a query. */
final case class StoreId(operator: Long, store: String) {
  override def toString: String = s"operator $operator, store $store"

  /** The same store in one run of the query. */
  def in(run: String): StoreKey = StoreKey(run, this)
}

/** One store in one run of a query: every name of its state begins with it. */
final case class StoreKey(run: String, id: StoreId) {
  override def toString: String = s"$id, run $run"
}

/** One worker's part of a store in one run of a query. */
final case class WorkerId(store: StoreKey, worker: Int)
