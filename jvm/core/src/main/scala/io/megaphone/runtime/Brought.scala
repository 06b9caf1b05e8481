// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import scala.util.Try

import io.megaphone.log.{BinLog, KeyReader}
import io.megaphone.log.memory.HeapBudget
import io.megaphone.state.{Export, Holding, Remote, Stretch, Traffic}

/** What was brought of an incomplete bin and waits until no task has the lease.
  *
  * Threads: one at a time, which brings the rest of a run; `heapBytes` may be called by any thread
  * at any time.
  *
  * @param next
  *   the hash from which on the rest is still to be asked for; None if this is the last of it
  * @param traffic
  *   what came for it, to be told
  * @param at
  *   where it belongs; None once that is lost
  */
private[runtime] sealed abstract class Brought(
    val bin: Int,
    val next: Option[Int],
    val traffic: Traffic,
    val at: Option[Brought.At]
) extends HeapBudget.User {

  /** Reads what `takeIn` takes next, without the lease. */
  def prepare(): Unit = ()

  /** Takes it in, or the next of it, with the lease. Returns whether that is all. */
  def takeIn(): Boolean

  def isFor(holding: Holding): Boolean = at.exists(_.holding eq holding)
  def isOf(remote: Remote): Boolean = at.exists(_.remote eq remote)
}

private[runtime] object Brought {

  /** Heap bytes of a sub-bin beside its records. */
  private val SubBinBytes = 48L

  /** A holding, and what it has elsewhere of a bin. */
  final case class At(holding: Holding, remote: Remote)

  /** A bin of which something is still to be asked for.
    *
    * @param from
    *   the hash from which on
    */
  final case class Open(bin: Int, remote: Remote, from: Int, asked: Int) {

    /** About how many its files have of it. */
    def bytes: Long = remote.chain.imageBytes + remote.chain.tailBytes
  }

  /** A stretch that the source has answered with. */
  final class Answered(holding: Holding, open: Open, stretch: Stretch, traffic: Traffic)
      extends Brought(open.bin, stretch.next, traffic, Some(At(holding, open.remote))) {
    override val heapBytes: Long = stretch.bytes + stretch.subBins.size * SubBinBytes

    override def takeIn(): Boolean = {
      if (open.remote.restFrom == open.from) { // else a stretch before it was dropped
        stretch.subBins.foreach(holding.takeIn(bin, _))
        stretch.next.foreach(open.remote.restFrom = _)
        if (stretch.next.isEmpty) holding.checkComplete(bin)
      }
      true
    }
  }

  /** A bin that was read from files. If nothing of it is here it is taken in as it is, else by
    * stretches that leave out what is here: they are read without the lease, for pages of the bin
    * may be on disk.
    *
    * @param keys
    *   reads the keys of the store's logs
    * @param stretchBytes
    *   about how many bytes are taken in under one lease
    */
  final class Loaded(
      holding: Holding,
      open: Open,
      log: BinLog,
      traffic: Traffic,
      keys: => KeyReader,
      stretchBytes: Int
  ) extends Brought(open.bin, None, traffic, Some(At(holding, open.remote))) {
    private val remote = open.remote
    private lazy val lender = {
      val made = new Export(remote.name, holding.binsCount, keys)
      made.add(Seq(bin -> log))
      made
    }
    private var from = Int.MinValue
    private var prepared = Option.empty[Try[Stretch]]
    @volatile private var ownBytes = 0L

    override def heapBytes: Long = log.heapBytes + ownBytes

    override def prepare(): Unit = if (prepared.isEmpty && remote.broughtCount > 0)
      prepared = Some(Try { // who has the lease is to see what is wrong
        val stretch = lender
          .from(bin, from, remote.hereFrom(from), stretchBytes)
          .getOrElse(throw new IllegalStateException(s"Keys of bin $bin lead elsewhere."))
        ownBytes = lender.heapBytes + stretch.bytes
        stretch
      })

    override def takeIn(): Boolean = prepared match {
      case Some(tried) =>
        prepared = None // after a failure it is read again
        val stretch = tried.get
        stretch.subBins.foreach(holding.takeIn(bin, _))
        stretch.next.foreach(from = _)
        if (stretch.next.isEmpty) holding.checkComplete(bin)
        stretch.next.isEmpty
      case None =>
        val isNoneHere = remote.broughtCount == 0 // else a task has asked for the first of it
        if (isNoneHere) holding.put(bin, log, holding.chain(bin))
        isNoneHere
    }
  }

  /** What came for a holding that is lost: only the bytes are told. */
  final class Lost(brought: Brought) extends Brought(brought.bin, None, brought.traffic, None) {
    override def heapBytes: Long = 0
    override def takeIn(): Boolean = true
  }
}
