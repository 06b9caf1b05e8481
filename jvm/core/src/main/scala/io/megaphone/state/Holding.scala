// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import scala.collection.mutable

import io.megaphone.errors.MissingBinException
import io.megaphone.format.{Chain, DeltaFile, FileName, StateName, WorkerId}
import io.megaphone.log.{BinLog, KeyReader, Survey}

/** The bins of one worker in the memory of one executor, at one name. Versions live here, never on
  * a bin.
  *
  * Given a worker and its bins at a settled name.
  *   1. `base` names the settled state, which is the prefix of every log. `head`, if there is one,
  *      names a commit on top of it that the driver has not confirmed yet.
  *   1. The next batch confirms the head or not: `settle` makes it the base, `undoHead` undoes it.
  *      An undone head is set aside until its version is settled, because Spark may still accept
  *      it. If it is large, its file serves then.
  *   1. A bin is given away only at the exact name that the driver asked for (`give`). From then on
  *      it belongs to the target.
  *
  * A replica that another executor prepares is a holding too: it has some of the bins, and never
  * commits.
  *
  * Threads: the holder of the lease reads and writes the logs. Names, giving and dropping are under
  * this object's monitor, because a target on the same executor may take bins while the worker
  * runs: it settles the head, without the lease. So what is taken in while no task runs is under
  * the monitor as well. Any thread reads the names, and does not wait for the monitor: who has it
  * may be writing to a slow disk.
  */
final class Holding(val worker: Int, val binsCount: Int) {
  private val held = new HeldBins(binsCount)
  @volatile private var baseName = StateName(0, StateName.FixedId)
  @volatile private var headCommit: Option[Holding.Head] = None
  private val aside = mutable.Map.empty[StateName, Holding.Aside]
  private val touchedBins = mutable.BitSet.empty
  private val adoptedBins = mutable.BitSet.empty
  private val leavingBins = mutable.BitSet.empty
  private val standbyBins = mutable.BitSet.empty // leaving ones that a standby here will take
  private val lentBins = mutable.BitSet.empty // to exports
  private val departed = new DepartedBins
  // The files that lead to the base, newest first; the first is the base's own.
  @volatile private var files = Vector.empty[FileName]

  /** Number of the table that the bins were last compared with: a batch of the same table need not
    * look at each bin.
    */
  private[megaphone] var checkedTable = Long.MinValue

  /** Whether a tail could not be undone, for want of room: nobody may use this holding any more. */
  @volatile private[megaphone] var isVoid = false

  /** The worker of another store whose rest is to come before that of this one, if it is here. */
  @volatile private[megaphone] var restAfter = Option.empty[WorkerId]

  /** What has come of incomplete bins while no task ran, since the last commit. With the lease. */
  private[megaphone] var cameBetween = Traffic()

  /** Version at which the accesses to the bins were counted last; −1 if they never were. */
  private[megaphone] var countedAt = -1L

  def base: StateName = baseName

  /** Ask for it before `base` if you need both: a head that is gone may be the base by then. */
  def head: Option[StateName] = headCommit.map(_.name)
  def lineage: Vector[FileName] = files

  /** Whether it is at most so many versions behind the settled one. A worker that runs here is one
    * version behind while its next batch is planned.
    */
  def keepsUp(settled: Long, behind: Int = 1): Boolean = settled <= base.version + behind

  /** The log of a bin, to read and write its rows: for every row, so it allocates nothing. Null if
    * the bin is absent, which never means that it is empty (I8).
    */
  def logOrNull(bin: Int): BinLog = held.logOrNull(bin)

  /** The same. Throws MissingBinException if the bin is absent. */
  def log(bin: Int): BinLog = {
    val log = logOrNull(bin)
    if (log == null) throw missing(bin)
    log
  }

  /** The log of a bin's records in this memory, to commit, undo, send or spill them. Unlike `log`
    * it may never wait for records. Throws MissingBinException if the bin is absent.
    */
  def here(bin: Int): BinLog = stateOf(bin).here.getOrElse(throw missing(bin))

  /** Whether a bin is present, and how. */
  def stateOf(bin: Int): BinState = held.stateOf(bin)

  /** Whether the bin is present. */
  def has(bin: Int): Boolean = held.has(bin)

  /** Whether the bin is present, and nothing of it is elsewhere. */
  def hasWhole(bin: Int): Boolean = has(bin) && stateOf(bin).elsewhere.isEmpty

  /** The chain of a bin; an empty one if the bin is absent. */
  def chain(bin: Int): Chain = held.chain(bin)

  /** The numbers of the bins that are present, ascending. */
  def bins: Iterator[Int] = held.numbers

  /** Bins with records since the base, ascending; some may have none. */
  def touched: collection.SortedSet[Int] = touchedBins
  def leaving: collection.Set[Int] = leavingBins
  def isAdopted(bin: Int): Boolean = adoptedBins.contains(bin)
  def isLeaving(bin: Int): Boolean = leavingBins.contains(bin)

  /** Called before each write to a bin. Throws MissingBinException if the bin is absent. */
  def touch(bin: Int): Unit = if (!log(bin).isTouched) {
    touchedBins.addOne(bin); () // `+=` would box the bin, and this runs for every row
  }

  /** Adds a settled bin, as loaded from files, a block or another holding. */
  def put(loaded: LoadedBin): Unit = synchronized {
    held.put(loaded.bin, loaded.log, loaded.chain, loaded.remote)
  }
  def put(bin: Int, log: BinLog, chain: Chain): Unit = put(LoadedBin(bin, log, chain))

  /** Takes in a sub-bin of an incomplete bin, unless it is here. Returns whether it was not. The
    * bin is complete once no key of it is elsewhere. With the lease. Throws DamagedRecordsException
    * if the records are none that the bin lacks: part of the sub-bin may then be here, and this
    * holding is of no use any more. Throws SpillException; the sub-bin is still elsewhere then.
    */
  def takeIn(bin: Int, subBin: SubBin): Boolean = synchronized {
    stateOf(bin) match {
      case BinState.Partial(log, remote) if !remote.isHere(subBin.hash) =>
        val keysBefore = log.keyCount
        log.takeIn(subBin.records, 0, subBin.records.length)
        remote.brought(subBin.hash, log.keyCount - keysBefore)
        if (remote.keysElsewhere == 0) held.setRemote(bin, None)
        true
      case _ => false
    }
  }

  /** Takes in all that an incomplete bin lacks, from a log that has the whole of it as it was when
    * the step took it. Throws as `takeIn` and `checkComplete` do, and what `keys` throws.
    */
  def completeFrom(bin: Int, whole: BinLog, keys: => KeyReader): Unit =
    stateOf(bin).elsewhere.foreach { remote =>
      if (remote.broughtCount == 0) put(bin, whole, chain(bin))
      else {
        val survey = Survey.of(whole, keys)
        survey.foreachFrom(Int.MinValue) { h =>
          if (!remote.isHere(h)) takeIn(bin, SubBin(h, survey.bytesOf(h)))
          true
        }
        checkComplete(bin)
      }
    }

  /** All of a bin has come. Throws IllegalStateException if keys of it are elsewhere all the same:
    * this holding is of no use then.
    */
  def checkComplete(bin: Int): Unit = stateOf(bin).elsewhere.foreach { remote =>
    throw new IllegalStateException(
      s"${remote.keysElsewhere} keys of bin $bin have not come although all has, so the " +
        "worker's state is read from files."
    )
  }

  /** Whether some bin is incomplete: asked for every row. */
  def areIncomplete: Boolean = held.areIncomplete

  /** The incomplete bins, ascending, each with what of it is elsewhere. */
  def incomplete: Vector[(Int, Remote)] = synchronized(held.incomplete)

  /** Drops a bin. Called twice: nothing happens. */
  def drop(bin: Int): Unit = synchronized {
    held.remove(bin)
    Seq(adoptedBins, leavingBins, standbyBins, lentBins).foreach(_ -= bin)
  }

  /** Drops the bins that are incomplete. */
  def dropIncomplete(): Unit = synchronized {
    if (areIncomplete) checkedTable = Long.MinValue // they are to be looked for
    incomplete.foreach { case (bin, _) => drop(bin) }
  }

  /** Marks a bin that changes its owner with the current batch, until that version is settled.
    *
    * @param isStoodBy
    *   whether this executor stands by for its new worker, and so is to keep it
    */
  def markLeaving(bin: Int, isStoodBy: Boolean = false): Unit = synchronized {
    leavingBins += bin
    if (isStoodBy) standbyBins += bin
  }

  /** Marks a bin that has come with the current batch. */
  def markAdopted(bin: Int): Unit = synchronized { adoptedBins += bin }

  /** Hands a bin over that has left with one of the last steps, and has this chain. */
  def takeDeparted(bin: Int, chain: Chain): Option[BinLog] = synchronized {
    departed.take(bin, chain)
  }

  /** Makes the bins that were added the settled state of this name. */
  def restart(name: StateName, lineage: Vector[FileName]): Unit = synchronized {
    aside.clear()
    touchedBins.clear()
    adoptedBins.clear()
    leavingBins.clear()
    standbyBins.clear()
    lentBins.clear()
    departed.clear()
    files = lineage
    baseName = name
    headCommit = None
  }

  /** Undoes the uncommitted records. Nothing happens after `commit`. */
  def abort(): Unit = synchronized { if (headCommit.isEmpty) undoTails() }

  /** Records a commit whose file is durable: rule 16, memory is never ahead of files. */
  def commit(name: StateName, file: FileName, newChains: Iterable[(Int, Chain)]): Unit =
    synchronized {
      require(headCommit.isEmpty, s"worker $worker has committed ${headCommit.map(_.name)} already")
      val (written, imagedOver) = (Array.newBuilder[Int], Map.newBuilder[Int, Chain])
      newChains.foreach { case (bin, next) =>
        if (next.isImage) imagedOver += bin -> chain(bin)
        held.setChain(bin, next)
        written += bin
      }
      headCommit = Some(Holding.Head(name, file, written.result(), imagedOver.result()))
    }

  /** Makes the head the base, if there is a head. Drops the heads that were set aside, and the bins
    * that leave.
    */
  def settle(): Unit = synchronized {
    headCommit.foreach { head =>
      touchedBins.foreach(stateOf(_).here.foreach(_.settle()))
      touchedBins.clear()
      for (bin <- standbyBins if !lentBins(bin); log <- stateOf(bin).here)
        departed.add(LoadedBin(bin, log, chain(bin)), baseName.version)
      files = (head.file +: files).take(Holding.LineageMax)
      baseName = head.name
      departed.dropBefore(baseName.version)
      aside.clear()
      leavingBins.toVector.foreach(drop)
      adoptedBins.clear()
      headCommit = None // who sees this sees all of the above
    }
  }

  /** Undoes the head, if there is one, and sets its tails aside under its name, unless they are
    * large: those are in a file, too.
    */
  def undoHead(): Unit = synchronized {
    headCommit.foreach { head =>
      val written = head.written.filter(has)
      if (touchedBins.iterator.map(here(_).tailBytes).sum <= Holding.AsideBytesMax) {
        val tails = touchedBins.iterator.map(bin => bin -> here(bin).tail().toBytes).toVector
        val newChains = written.map(bin => bin -> chain(bin)).toVector
        aside(head.name) = Holding.Aside(head.file, tails, newChains)
      }
      written.foreach(bin => held.setChain(bin, head.chainBefore(bin, chain(bin))))
      headCommit = None
      undoTails()
    }
  }

  /** Restores a head that was set aside. Returns false if none of that name was. */
  def redo(name: StateName): Boolean = synchronized {
    aside.remove(name).exists { a =>
      a.tails.foreach { case (bin, bytes) => touch(bin); here(bin).apply(bytes, 0, bytes.length) }
      commit(name, a.file, a.chains)
      true
    }
  }

  /** Hands over settled bins, which belong to the taker from then on. Returns None if this holding
    * is not at exactly `name`, or lacks one of the bins, or has lent one. A head of that name is
    * settled first.
    */
  def give(name: StateName, wanted: Seq[Int]): Option[Seq[LoadedBin]] = synchronized {
    if (headCommit.exists(_.name == name)) settle()
    val settled = settledLogs(wanted)
    val isMine = settled.size == wanted.size && !wanted.exists(lentBins)
    Option.when(baseName == name && isMine) {
      val leaving =
        wanted.zip(settled).map { case (bin, log) => LoadedBin(bin, log, chain(bin)) }
      /* A mark that a bin leaves stays: by the next commit's footer, older holdings of this worker
       * drop the bin. */
      wanted.foreach(held.remove)
      leaving
    }
  }

  /** Lends settled bins that leave with the batch that reads `name`: who asks for them may read
    * them from then on, and nobody writes to them any more. A head of that name is settled first.
    *
    * @return
    *   None if this holding is not at exactly `name`, or lacks one of the bins
    */
  def lend(name: StateName, wanted: Seq[Int]): Option[Seq[(Int, BinLog)]] = synchronized {
    if (headCommit.exists(_.name == name)) settle()
    val settled = settledLogs(wanted)
    Option.when(baseName == name && settled.size == wanted.size) {
      lentBins ++= wanted
      wanted.zip(settled)
    }
  }

  /** The logs of those of some bins that are complete and have no tail. */
  private def settledLogs(wanted: Seq[Int]): Seq[BinLog] =
    wanted.map(stateOf).collect { case BinState.Local(log) if !log.isTouched => log }

  /** Number of live keys of the bins that stay. */
  def keyCount: Long = held.sum(!isLeaving(_))(_.keyCount)

  /** Bytes of the live records of the bins that stay. */
  def liveBytes: Long = held.sum(!isLeaving(_))(_.liveBytes)

  /** Heap bytes of all logs and chains. */
  def heapBytes: Long = held.heapBytes + departed.heapBytes
  def bytesOnDisk: Long = held.bytesOnDisk

  /** Moves pages to disk until `bytes` of heap are free or no page is left to move. Bins that have
    * not changed for longest come first. Then repacks spill files that are mostly dead. Returns the
    * bytes freed. Only with the lease. Throws SpillException.
    */
  def spill(bytes: Long): Long = synchronized {
    val mine = bins.filterNot(bin => isLeaving(bin) || lentBins(bin)).toVector
    var left = bytes
    if (left > 0)
      mine
        .sortBy(chain(_).lastFile.fold(0L)(_.name.version))
        .iterator
        .takeWhile(_ => left > 0)
        .foreach(left -= here(_).spill(left))
    mine.foreach(here(_).repack())
    bytes - left
  }

  private def undoTails(): Unit =
    try {
      touchedBins.foreach(stateOf(_).here.foreach(_.undo()))
      touchedBins.clear()
    } catch { case e: Throwable => isVoid = true; throw e }

  private def missing(bin: Int) = new MissingBinException(s"at $base", worker, bin)
}

object Holding {
  private val LineageMax = io.megaphone.format.Footer.PreviousMax

  /** Bytes of the tails that are set aside at most: they are copies, which no budget knows. */
  private[megaphone] val AsideBytesMax = DeltaFile.PieceBytes

  /** @param written
    *   bins that the commit wrote a frame of
    * @param imagedOver
    *   the chains that images replaced. All other chains became longer by one tail, so they need
    *   not be kept twice
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
