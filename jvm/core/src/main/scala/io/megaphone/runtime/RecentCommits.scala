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
  private val sizeOf = mutable.Map.empty[StoreId, mutable.Map[Int, (Long, BinSize)]]

  def add(c: Committed): Unit = synchronized {
    newestOf(c.worker) = c.copy(sizes = None)
    c.sizes.foreach(note(c.worker.store.id, c.batch, _))
    if (c.arrivals.isAny) {
      moved.enqueue(c.copy(sizes = None))
      if (moved.size > movesMax) { moved.dequeue(); () }
    }
  }

  /** Those that bins arrived with, in the order in which they were reported. */
  def moves: Vector[Committed] = synchronized(moved.toVector)

  /** The newest commit of each worker. */
  def newest: Map[WorkerId, Committed] = synchronized(newestOf.toMap)

  /** How large each bin is, over some stores; a bin that no commit has told of is not in it. */
  def sizes(stores: Seq[StoreId]): Map[Int, BinSize] = synchronized {
    stores
      .flatMap(sizeOf.getOrElse(_, Map.empty[Int, (Long, BinSize)]))
      .groupMapReduce { case (bin, _) => bin } { case (_, (_, size)) => size }(_ + _)
  }

  /** A commit that is reported late does not replace what a later batch has told. */
  private def note(store: StoreId, batch: Long, sizes: BinSizes): Unit = {
    val known = sizeOf.getOrElseUpdate(store, mutable.Map.empty)
    for ((bin, i) <- sizes.bins.zipWithIndex if known.get(bin).forall(_._1 <= batch))
      known(bin) = batch -> BinSize(sizes.keys(i), sizes.bytes(i), sizes.bytesWritten(i))
  }
}
