// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.megaphone.format.{StateName, StoreKey, WorkerId}
import io.megaphone.log.{KeyReader, Survey}

/** What steps on demand take from the workers of one executor: rule 33.
  *
  *   1. A step is announced by its source's tasks, with the bins that it will take. Surveys of
  *      these are begun ahead (`putDrafts`), and the driver is told how far they are (`surveyed`).
  *      ''The source goes on elsewhere:'' it is announced there, too.
  *   1. In the step's batch the bins are lent, to one export: by the source's task, or by the first
  *      question. If the source has no task in that batch, its holding stays until then (`toLend`).
  *   1. The export stays until the driver's orders name the step no more. ''The executor dies:''
  *      the files have what was exported, at the same name.
  *
  * Threads: any.
  *
  * @param holdingOf
  *   finds a worker's holding here
  * @param keysOf
  *   makes what reads the keys of a store, if somebody told how
  */
final class Exports private[state] (
    holdingOf: WorkerId => Option[Holding],
    keysOf: StoreKey => Option[KeyReader]
) {
  private val announced = new ConcurrentHashMap[ReplicaKey, Seq[Int]]()
  private val drafts = new ConcurrentHashMap[ReplicaKey, Map[Int, Survey.Draft]]()
  private val exports = new ConcurrentHashMap[ReplicaKey, Export]()

  /** A step will take these bins of its source, which has a holding here. Called twice: the later
    * bins count.
    */
  def announce(key: ReplicaKey, bins: Seq[Int]): Unit = { announced.put(key, bins); () }
  def isAnnounced(key: ReplicaKey): Boolean = announced.containsKey(key)

  /** Keeps surveys that are begun ahead for an export. */
  def putDrafts(key: ReplicaKey, begun: Map[Int, Survey.Draft]): Unit = {
    drafts.put(key, begun); ()
  }

  /** The surveys that are kept for an export, by bin. */
  def draftsOf(key: ReplicaKey): Map[Int, Survey.Draft] = drafts.getOrDefault(key, Map.empty)

  /** How far the surveys are that were begun ahead. */
  def surveyed: Vector[SurveysDone] = drafts.asScala.iterator.map { case (key, begun) =>
    val (over, left) = begun.values.partition(_.isOver)
    SurveysDone(key, over.iterator.map(_.recordBytes).sum, left.isEmpty)
  }.toVector

  /** The export of a step, with these bins of its source as they were at `name`: as it is there, or
    * with what the source's holding here lends it. All bins that were announced are lent at once.
    * Returns None if the bins are not to be had here at that name.
    */
  def of(key: ReplicaKey, name: StateName, bins: Seq[Int]): Option[Export] = {
    def isThere(known: Export) = known.name == name && bins.forall(known.has)
    Option(exports.get(key)).filter(isThere).orElse(lent(key, name, bins))
  }

  private def lent(key: ReplicaKey, name: StateName, bins: Seq[Int]): Option[Export] = for {
    holding <- holdingOf(WorkerId(key.store, key.source))
    keys <- keysOf(key.store)
    logs <- holding.lend(name, (bins ++ announced.getOrDefault(key, Nil)).distinct)
  } yield {
    val begun = draftsOf(key)
    val lender = exports.compute(
      key,
      (_, known) =>
        if (known != null && known.name == name) known
        else new Export(name, holding.binsCount, keys, begun)
    )
    lender.add(logs)
    lender
  }

  /** The workers whose holdings are to stay until they have lent what was announced, each with the
    * version.
    *
    * @param takenAt
    *   the version of its source that a step takes; None while it is not sealed
    */
  private[state] def toLend(takenAt: ReplicaKey => Option[Long]): Set[(WorkerId, Long)] = (for {
    key <- announced.keySet.asScala.iterator if !exports.containsKey(key)
    version <- takenAt(key)
  } yield WorkerId(key.store, key.source) -> version).toSet

  /** Drops what is not wanted. */
  def keep(isWanted: ReplicaKey => Boolean): Unit =
    Seq(announced, drafts, exports).foreach(_.keySet.removeIf(key => !isWanted(key)))

  def count: Int = exports.size

  /** The run of each export. */
  private[state] def runs: Iterator[String] = exports.keySet.asScala.iterator.map(_.store.run)

  /** The heap that surveys take, and logs which no holding has any longer. */
  private[state] def heapBytes: Long = {
    var sum = 0L
    drafts.forEach((_, some) => sum += some.valuesIterator.map(_.heapBytes).sum)
    exports.forEach { (key, lender) =>
      val source = holdingOf(WorkerId(key.store, key.source))
      sum += lender.heapBytes + lender.heapBytesBeside(source)
    }
    sum
  }

  def isEmpty: Boolean = Seq(announced, drafts, exports).forall(_.isEmpty)
}

/** How far the surveys are that were begun ahead of an export.
  *
  * @param bytes
  *   bytes of the records that have been looked at
  * @param areAll
  *   whether nothing is left to look at
  */
final case class SurveysDone(key: ReplicaKey, bytes: Long, areAll: Boolean)
