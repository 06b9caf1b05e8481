// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.collection.mutable

import io.megaphone.format.{StoreId, WorkerId}

/** The commits that tasks reported, for the tables that users see: the newest of each worker, the
  * newest of those that bins arrived with, and how large each bin was when a commit told it last.
  * Ordinary commits, thousands a batch, do not displace moves.
  *
  * Threads: any.
  *
  * @param movesMax
  *   number of commits with arrivals that are kept; the oldest are dropped first
  */
final class RecentCommits(movesMax: Int = 20000) {
  private val moved = mutable.Queue.empty[Committed]
  private val newestOf = mutable.Map.empty[WorkerId, Committed]
  private val sizeOf = mutable.Map.empty[StoreId, Array[RecentCommits.Told]] // by bin; null: never

  def add(c: Committed): Unit = synchronized {
    val kept = sharing(c.copy(sizes = None))
    newestOf(kept.worker) = kept
    c.sizes.foreach(note(c.worker.store.id, c.batch, _))
    if (c.arrivals.isNews) {
      moved.enqueue(kept)
      if (moved.size > movesMax) { moved.dequeue(); () }
    }
  }

  /** The same commit, with the ids that the one before it has: each message comes with its own. */
  private def sharing(c: Committed): Committed = newestOf.get(c.worker).fold(c) { known =>
    val executor = if (known.executor == c.executor) known.executor else c.executor
    c.copy(worker = known.worker, executor = executor)
  }

  /** Those that bins arrived with, in the order in which they were reported. */
  def moves: Vector[Committed] = synchronized(moved.toVector)

  /** The newest commit of each worker. */
  def newest: Map[WorkerId, Committed] = synchronized(newestOf.toMap)

  /** Those of `moves` that are of a batch or of later ones. */
  def movesSince(batch: Long): Vector[Committed] =
    synchronized(moved.iterator.filter(_.batch >= batch).toVector)

  /** How large each bin is, over some stores; None of a bin that no commit has told of. */
  def sizes(stores: Seq[StoreId]): Int => Option[BinSize] = {
    val known = synchronized(stores.flatMap(sizeOf.get).map(_.clone)) // no commit waits for sums
    bin => known.flatMap(told => told.lift(bin).filter(_ != null)).map(_.size).reduceOption(_ + _)
  }

  /** A commit that is reported late does not replace what a later batch has told. */
  private def note(store: StoreId, batch: Long, sizes: BinSizes): Unit = if (sizes.bins.nonEmpty) {
    val before = sizeOf.getOrElse(store, Array.empty[RecentCommits.Told])
    val known = before.padTo(sizes.bins.last + 1, null)
    for ((bin, i) <- sizes.bins.zipWithIndex if known(bin) == null || known(bin).batch <= batch) {
      val size = BinSize(sizes.keys(i), sizes.bytes(i), sizes.bytesWritten(i), sizes.accesses(i))
      known(bin) = RecentCommits.Told(batch, size)
    }
    sizeOf(store) = known
  }
}

private object RecentCommits {
  private final case class Told(batch: Long, size: BinSize)
}
