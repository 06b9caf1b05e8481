// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.concurrent.TrieMap
import scala.collection.mutable

import io.megaphone.format.{Footer, StoreId}
import io.megaphone.placement.Seat
import io.megaphone.plan.Group

/** What executors report of the state of workers that run elsewhere: how far each standby is, since
  * when an executor has made no progress, and for which workers there was no room. Reports may be
  * lost, late or repeated.
  *
  * Threads: one at a time; `versionOn`, `isWhole`, `shareOn`, `mostOn`, `newestOn` and `refusals`
  * may be called by any thread at any time.
  */
private[runtime] final class ReportedStandbys {
  import ReportedStandbys._

  private val standing = TrieMap.empty[String, Told] // by executor
  private val mostBins = mutable.Map.empty[StandbyKey, Int] // that there ever were, until whole
  private val lackingSince = mutable.Map.empty[StandbyKey, Long] // of those that are asked for
  private val progressed = mutable.Map.empty[String, Long] // when an executor had more bins
  @volatile private var refused = Map.empty[Seat, Map[String, Long]] // executor → batch

  /** Forgets the executors that are gone, and what is long past. */
  def forget(gone: Vector[String], batch: Long): Unit = {
    gone.foreach(standing.remove)
    mostBins.filterInPlace((key, _) => !gone.contains(key._1))
    lackingSince.filterInPlace((key, _) => !gone.contains(key._1))
    gone.foreach(progressed.remove)
    refused = refused.view
      .mapValues(_.filter(r => !gone.contains(r._1) && r._2 + RefusedBatches >= batch))
      .filter(_._2.nonEmpty)
      .toMap
  }

  /** An executor reports how far its standbys are, while a batch is under way. */
  def standsBy(executor: String, standbys: Vector[Standing], batch: Long): Unit = {
    val now = standbys.map(s => (s.worker.store.id, s.worker.worker) -> s).toMap
    mostBins.filterInPlace { case (key @ (of, worker, store), _) =>
      of != executor || now.contains((store, worker)) || lackingSince.contains(key)
    }
    // One that begins again, because it had no room or got lost, makes no progress.
    for (((store, worker), s) <- now) {
      val key = (executor, worker, store)
      if (mostBins.get(key).forall(_ < s.bins)) {
        mostBins(key) = s.bins
        progressed(executor) = batch
      }
    }
    standing(executor) = Told(now, batch)
  }

  /** An executor could not take a worker: it has no room, or makes no progress. */
  def refuses(executor: String, seat: Seat, batch: Long): Unit =
    refused += seat -> (refused.getOrElse(seat, Map.empty) + (executor -> batch))

  /** The executors that could not take a worker, not long ago, each with the batch. */
  def refusals(seat: Seat): Map[String, Long] = refused.getOrElse(seat, Map.empty)

  def hasRefusals: Boolean = refused.nonEmpty

  /** The batch in which an executor last could not take a worker; -1 if it could. */
  def refusedAt(seat: Seat, executor: String): Long =
    refusals(seat).getOrElse(executor, -1L)

  /** The batch in which an executor last had more bins of any worker than before; -1 if never. It
    * makes one standby after the other, so those that wait for their turn are not stuck.
    */
  def progressedAt(executor: String): Long = progressed.getOrElse(executor, -1L)

  /** The version of an executor's standby that has all bins of a worker; None if it has none. */
  def versionOn(group: Group, worker: Int, executor: String): Option[Long] =
    standing.get(executor).flatMap(_.versionOf(group, worker))

  /** Whether an executor's standby has all bins of a worker, and keeps up: the worker's task reads
    * the tails in between. If there are more than it may read, it reads the whole state.
    */
  def isWhole(group: Group, worker: Int, executor: String): Boolean =
    wholeOn(group, worker, executor).isDefined

  /** Takes note of who is asked to have the state of which of a group's workers, in a batch: since
    * when each is asked for it and is not whole.
    */
  def asked(group: Group, of: Set[(Int, String)], batch: Long): Unit = {
    lackingSince.filterInPlace { case ((executor, worker, store), _) =>
      !group.stores.contains(store) || of((worker, executor))
    }
    for ((worker, executor) <- of) {
      val isThere = isWhole(group, worker, executor)
      group.stores.foreach { store =>
        val key = (executor, worker, store)
        if (isThere) lackingSince.remove(key)
        else if (!lackingSince.contains(key)) { lackingSince(key) = batch; mostBins.remove(key) }
      }
    }
  }

  /** Whether a standby that is asked for has not been whole for many batches: its executor has all
    * bins, and does not keep up; or it has not got more of them than ever before, nor of any other
    * worker. Something cannot be read, or somebody holds the state there for ever.
    */
  def isStuck(group: Group, worker: Int, executor: String, batch: Long): Boolean =
    lackingSince.get((executor, worker, group.stores.head)).exists { since =>
      val hasAll = versionOn(group, worker, executor).isDefined
      batch >= StuckBatches + (if (hasAll) since else math.max(since, progressedAt(executor)))
    }

  /** The version of a standby that is whole. */
  private def wholeOn(group: Group, worker: Int, executor: String): Option[Long] =
    standing.get(executor).flatMap { told =>
      told.versionOf(group, worker).filter(told.keepsUp)
    }

  /** The part of a worker's bins that an executor's standby has, in all stores, from 0 to 1.
    *
    * @param bins
    *   how many bins the worker has
    */
  def shareOn(group: Group, worker: Int, executor: String, bins: Int): Double = {
    val there = standing.get(executor).fold(0)(_.of(group, worker).map(_.bins).sum)
    if (bins == 0) 1 else math.min(1.0, there.toDouble / bins / group.stores.size)
  }

  /** Of some executors, the one whose standby has most of a worker's bins, and more than half of
    * them, if it keeps up.
    *
    * @param bins
    *   how many bins the worker has
    */
  def mostOn(group: Group, worker: Int, among: Set[String], bins: Int): Option[String] = {
    val shares = for {
      (executor, told) <- standing.toVector if among(executor)
      oldest <- told.of(group, worker).map(_.version).minOption
      if told.keepsUp(oldest)
      share = shareOn(group, worker, executor, bins) if share > 0.5
    } yield (-share, executor)
    shares.minOption.map(_._2)
  }

  /** Of some executors, those with the newest standbys that are whole. */
  def newestOn(group: Group, worker: Int, among: Set[String]): Seq[String] = {
    val versions = for {
      executor <- standing.keys.toVector if among(executor)
      version <- wholeOn(group, worker, executor)
    } yield executor -> version
    val newest = versions.map(_._2).maxOption
    versions.collect { case (executor, version) if newest.contains(version) => executor }
  }
}

private[runtime] object ReportedStandbys {

  /** Batches after which an executor is given up that copies nothing, or does not keep up. */
  val StuckBatches = 50L

  /** Batches after which an executor that could not take a worker may be asked again. */
  val RefusedBatches = 1000L

  /** An executor, a worker and a store. */
  private type StandbyKey = (String, Int, StoreId)

  /** What an executor has told last, and the batch that was under way then. */
  private final case class Told(standbys: Map[(StoreId, Int), Standing], batch: Long) {

    /** The standbys of a worker, of those stores that have one. */
    def of(group: Group, worker: Int): Vector[Standing] =
      group.stores.flatMap(store => standbys.get((store, worker)))

    /** The version of the standbys of a worker, if all bins of all stores are there. */
    def versionOf(group: Group, worker: Int): Option[Long] = {
      val found = of(group, worker)
      Option.when(found.size == group.stores.size && found.forall(_.isWhole))(
        found.iterator.map(_.version).min
      )
    }

    /** Whether a task would have read only tails after a version then. Batches since do not count:
      * an executor without tasks reports once a second.
      */
    def keepsUp(version: Long): Boolean = batch - version <= Footer.PreviousMax
  }
}
