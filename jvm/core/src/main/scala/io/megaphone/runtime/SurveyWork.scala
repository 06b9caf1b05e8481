// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import java.util.concurrent.LinkedBlockingQueue

import scala.annotation.tailrec

import io.megaphone.log.Survey
import io.megaphone.state.{BinState, Holding, Registry, ReplicaKey}

/** Begins, ahead of steps on demand, the surveys of the bins that they will take: else the first
  * question of a step would wait for them.
  *
  *   1. Each task of a source queues its bins while the step is announced, those that are not
  *      surveyed yet. ''Dies:'' nothing is ahead, and the next task queues them, there or
  *      elsewhere.
  *   1. `next` looks at the settled records of one bin, while the worker's tasks go on.
  *   1. The step waits until the executor reports that all bins are surveyed. ''Its patience is
  *      over:'' questions wait.
  *   1. The step's export goes on from there.
  *
  * Threads: any.
  */
final class SurveyWork private[runtime] (registry: Registry) {
  private val queued = new LinkedBlockingQueue[(ReplicaKey, Survey.Draft)]()

  /** Queues bins of a holding that are settled, but for those that are queued or surveyed as they
    * are now. Only with the lease, before the batch writes.
    */
  def queue(key: ReplicaKey, holding: Holding, bins: Seq[Int]): Unit = {
    // One for each thread, for two may be at two drafts. It may take long to make one.
    val readers = ThreadLocal.withInitial(() => registry.keyReaderOf(key.store).get)
    val known = registry.exports.draftsOf(key)
    val drafts =
      bins.map(bin => bin -> holding.stateOf(bin)).collect { case (bin, BinState.Local(log)) =>
        bin -> known.get(bin).filter(_.isOf(log)).getOrElse(log.draft(readers.get))
      }
    registry.exports.putDrafts(key, drafts.toMap)
    for ((bin, draft) <- drafts if !known.get(bin).contains(draft)) queued.add(key -> draft)
  }

  /** Forgets the surveys that no export is to have any more. */
  private[runtime] def keep(): Unit = {
    queued.removeIf { case (key, _) => registry.exports.draftsOf(key).isEmpty }
    ()
  }

  /** How many surveys are wanted and to be begun. */
  def wantedCount(isWanted: ReplicaKey => Boolean): Int =
    if (queued.isEmpty) 0
    else queued.stream.filter { case (key, _) => isWanted(key) }.count.toInt

  /** Begins one survey that is wanted. Those that are not wanted yet stay: the orders that name
    * their step may be on their way. Returns false if there is none to begin.
    */
  def next(isWanted: ReplicaKey => Boolean): Boolean = {
    @tailrec
    def first(looks: Int): Option[Survey.Draft] =
      (if (looks > 0) Option(queued.poll()) else None) match {
        case Some((key, draft)) if isWanted(key) => Some(draft)
        case Some(one) => queued.add(one); first(looks - 1)
        case None => None
      }
    val wanted = first(queued.size)
    // Keys that nobody here can read make the export refuse the bin.
    wanted.foreach { draft =>
      try draft.make()
      catch { case _: NoSuchElementException => () }
    }
    wanted.nonEmpty
  }
}
