// SPDX-License-Identifier: Apache-2.0
package io.megaphone.format

/** The name of a worker's state at one version. Equal names stand for equal state, for ever (I2).
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

  /** The one id under checkpoint format v1, which has no unique ids. */
  val FixedId = ""
}

/** A file of one store of one operator, named relative to the operator's folder, so that a copied
  * or renamed checkpoint stays whole.
  */
final case class FileName(worker: Int, name: StateName) {

  /** `<worker>/<version>[_<id>].delta`. */
  override def toString: String = s"$worker/$name.delta"
}

object FileName {
  private val Pattern = """(0|[1-9]\d*)(?:_([^.]+))?\.delta""".r

  /** Parses the name of a file in a worker's folder; returns None if it is not a delta file's. */
  def parse(worker: Int, file: String): Option[FileName] = file match {
    case Pattern(version, id) if version.length < 19 =>
      Some(FileName(worker, StateName(version.toLong, Option(id).getOrElse(StateName.FixedId))))
    case _ => None
  }
}

/** Identifies one writing of a file: under checkpoint format v1 a late attempt may overwrite a file
  * under the same name (H9).
  */
final case class WriterId(high: Long, low: Long)

/** Identifies the replica of bins of worker `source` that is prepared for worker `target`, for one
  * step.
  */
final case class ReplicaKey(store: StoreKey, source: Int, target: Int, step: String)

/** One store of one operator in one run of a query: the start of all names of its state. */
final case class StoreKey(run: String, operator: Long, store: String) {
  override def toString: String = s"operator $operator, store $store, run $run"
}
