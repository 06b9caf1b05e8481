// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import scala.collection.mutable

import io.megaphone.format.{Chain, FileName, StateName}
import io.megaphone.log.BinLog

/** What one executor has of one worker's state: the bins' logs at one name. Versions live here,
  * never on a bin.
  *
  *   1. `base` names the settled state, the prefix of every log. `head`, if any, names a commit on
  *      top of it that the driver has not confirmed yet.
  *   1. The next batch says what became of the head: `settle` makes it the base, `undoHead` takes
  *      it back. An undone head is set aside until its version is settled, because Spark may still
  *      accept it.
  *   1. A bin leaves only from the exact name that the driver gave (`give`), and is the target's
  *      from then on.
  *
  * A copy that is prepared on another executor is a holding too, of a subset of the bins, that
  * never commits.
  *
  * The holder of the lease writes the logs. What concerns the whole (names, giving, dropping) is
  * under this object's monitor, because a target on the same executor may take bins while the
  * worker runs.
  */
final class Holding(val worker: Int, val binsCount: Int) {
  private val logs = new Array[BinLog](binsCount)
  private val chains = new Array[Chain](binsCount)
  private var baseName = StateName(0, StateName.FixedId)
  private var headCommit: Option[Holding.Head] = None
  private val aside = mutable.Map.empty[StateName, Holding.Aside]
  private val touchedBins = mutable.BitSet.empty
  private val adoptedBins = mutable.BitSet.empty
  private val leavingBins = mutable.BitSet.empty
  private var files =
    Vector.empty[FileName] // that lead to the base, newest first, the base's own included

  /** Number of the table that the bins were last compared with: a batch of the same table need not
    * look at each bin.
    */
  private[megaphone] var checkedTable = Long.MinValue

  def base: StateName = synchronized(baseName)
  def head: Option[StateName] = synchronized(headCommit.map(_.name))
  def lineage: Vector[FileName] = synchronized(files)

  /** The log of a bin, or null where this holding does not have it. */
  def log(bin: Int): BinLog = logs(bin)
  def has(bin: Int): Boolean = logs(bin) != null
  def chain(bin: Int): Chain = if (chains(bin) == null) Chain.Empty else chains(bin)
  def bins: Iterator[Int] = logs.indices.iterator.filter(has)

  /** Bins with records since the base, ascending; some may have none. */
  def touched: collection.SortedSet[Int] = touchedBins
  def leaving: collection.Set[Int] = leavingBins
  def isAdopted(bin: Int): Boolean = adoptedBins.contains(bin)
  def isLeaving(bin: Int): Boolean = leavingBins.contains(bin)

  /** Says that the caller is about to write to a bin. */
  def touch(bin: Int): Unit = if (!logs(bin).isTouched) {
    touchedBins.addOne(bin); ()
  } // `+=` would box the bin, and this is for every row

  /** Puts a settled bin in, as loaded from files, a block or another holding. */
  def put(loaded: LoadedBin): Unit = put(loaded.bin, loaded.log, loaded.chain)
  def put(bin: Int, log: BinLog, chain: Chain): Unit = synchronized {
    logs(bin) = log; chains(bin) = chain
  }

  /** Drops a bin. */
  def drop(bin: Int): Unit = synchronized {
    logs(bin) = null; chains(bin) = null; adoptedBins -= bin; leavingBins -= bin
  }

  /** Marks what the current batch changes in ownership; forgotten when its version is settled. */
  def markAdopted(bin: Int): Unit = synchronized { adoptedBins += bin }
  def markLeaving(bin: Int): Unit = synchronized { leavingBins += bin }

  /** Names what was put in from outside as the settled state. */
  def restart(name: StateName, lineage: Vector[FileName]): Unit = synchronized {
    baseName = name
    headCommit = None
    aside.clear()
    touchedBins.clear()
    adoptedBins.clear()
    leavingBins.clear()
    files = lineage
  }

  /** Takes uncommitted records back. Nothing happens after `commit`. */
  def abort(): Unit = synchronized { if (headCommit.isEmpty) undoTails() }

  /** Records a commit whose file is durable: rule 16, memory is never ahead of files. */
  def commit(name: StateName, file: FileName, newChains: Iterable[(Int, Chain)]): Unit =
    synchronized {
      require(headCommit.isEmpty, s"worker $worker has committed ${headCommit.map(_.name)} already")
      val (written, imagedOver) = (Array.newBuilder[Int], Map.newBuilder[Int, Chain])
      newChains.foreach { case (bin, next) =>
        if (next.isImage) imagedOver += bin -> chains(bin)
        chains(bin) = next
        written += bin
      }
      headCommit = Some(Holding.Head(name, file, written.result(), imagedOver.result()))
    }

  /** The head, if there is one, becomes the base; what it replaced, set aside or gave away is
    * dropped.
    */
  def settle(): Unit = synchronized {
    headCommit.foreach { head =>
      touchedBins.foreach(bin => if (has(bin)) logs(bin).settle())
      touchedBins.clear()
      baseName = head.name
      headCommit = None
      files = (head.file +: files).take(Holding.LineageMax)
      aside.clear()
      leavingBins.toVector.foreach(drop)
      adoptedBins.clear()
    }
  }

  /** Takes the head back and sets its tails aside under its name. */
  def undoHead(): Unit = synchronized {
    headCommit.foreach { head =>
      val tails = touchedBins.iterator.map(bin => bin -> logs(bin).tail().toBytes).toVector
      val written = head.written.filter(has)
      val newChains = written.map(bin => bin -> chains(bin)).toVector
      aside(head.name) = Holding.Aside(head.file, tails, newChains)
      written.foreach(bin => chains(bin) = head.chainBefore(bin, chains(bin)))
      headCommit = None
      undoTails()
    }
  }

  /** Puts a head that was set aside back; false where there is none of that name. */
  def redo(name: StateName): Boolean = synchronized {
    aside.remove(name).exists { a =>
      a.tails.foreach { case (bin, bytes) => touch(bin); logs(bin).apply(bytes, 0, bytes.length) }
      commit(name, a.file, a.chains)
      true
    }
  }

  /** Hands settled bins over, if this holding is at exactly `name`: they are the taker's from now
    * on. None where it is not, or lacks one of them.
    */
  def give(name: StateName, wanted: Seq[Int]): Option[Seq[LoadedBin]] = synchronized {
    if (headCommit.exists(_.name == name)) settle()
    if (baseName != name || wanted.exists(bin => !has(bin) || logs(bin).isTouched)) None
    else
      Some(wanted.map { bin =>
        val entry = LoadedBin(bin, logs(bin), chain(bin))
        logs(bin) = null
        /* but a mark that it leaves stays: the next commit's footer tells older copies of this
         * worker that what they have of the bin is void */
        chains(bin) = null
        entry
      })
  }

  /** Live keys of the bins that stay. */
  def keyCount: Long = {
    var sum = 0L
    var bin = 0
    while (bin < logs.length) {
      if (logs(bin) != null && !isLeaving(bin)) sum += logs(bin).keyCount; bin += 1
    }
    sum
  }

  /** Heap bytes of all logs and chains. */
  def heapBytes: Long = {
    var sum = binsCount * 16L
    logs.foreach(l => if (l != null) sum += l.heapBytes)
    chains.foreach(c => if (c != null) sum += c.heapBytes)
    sum
  }

  def bytesOnDisk: Long = {
    var sum = 0L; logs.foreach(l => if (l != null) sum += l.bytesOnDisk); sum
  }

  /** Puts pages of bins on disk until so many bytes of heap are free or no more can be, of the bins
    * first that have not changed for longest; and writes anew what lies in files that have little
    * else in them. For the holder of the lease. Throws SpillException.
    */
  def spill(bytes: Long): Unit = synchronized {
    val mine = bins.filterNot(isLeaving).toVector
    var left = bytes
    if (left > 0)
      mine
        .sortBy(chain(_).lastFile.fold(0L)(_.name.version))
        .iterator
        .takeWhile(_ => left > 0)
        .foreach(left -= logs(_).spill(left))
    mine.foreach(logs(_).repack())
  }

  private def undoTails(): Unit = {
    touchedBins.foreach(bin => if (has(bin)) logs(bin).undo())
    touchedBins.clear()
  }
}

object Holding {
  private val LineageMax = io.megaphone.format.Footer.PreviousMax

  /** @param written
    *   bins that the commit wrote a frame of
    * @param imagedOver
    *   chains that were replaced by an image; the others became longer by a tail, and are not kept
    *   twice
    */
  private final case class Head(
      name: StateName,
      file: FileName,
      written: Array[Int],
      imagedOver: Map[Int, Chain]
  ) {
    def chainBefore(bin: Int, now: Chain): Chain = imagedOver.getOrElse(bin, now.init)
  }

  private final case class Aside(
      file: FileName,
      tails: Vector[(Int, Array[Byte])],
      chains: Vector[(Int, Chain)]
  )
}
