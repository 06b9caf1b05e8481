// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import scala.collection.concurrent.TrieMap
import scala.collection.mutable

import io.megaphone.format.Chain
import io.megaphone.log.BinLog

/** The bins of one holding: the log and the chain of each bin that is present.
  *
  * It alone knows how a [[BinState]] is kept. A log is looked up for every row, so the logs have an
  * array of their own, and a state is made only for those who ask for one. A worker of many has few
  * of the bins, and looks at those alone.
  *
  * Threads: those of its holding.
  */
private[state] final class HeldBins(count: Int) {
  private val logs = new Array[BinLog](count) // null: absent
  private val chains = new Array[Chain](count)
  private val present = new mutable.BitSet(count)
  private val remotes = TrieMap.empty[Int, Remote] // of the incomplete ones

  /** Whether a bin is incomplete. Looked at for every row. */
  def areIncomplete: Boolean = hasRemotes
  private var hasRemotes = false

  def stateOf(bin: Int): BinState = {
    val log = logs(bin)
    if (log == null) BinState.Absent
    else if (!hasRemotes) BinState.Local(log)
    else remotes.get(bin).fold[BinState](BinState.Local(log))(BinState.Partial(log, _))
  }

  /** What is elsewhere of the incomplete bins, ascending. */
  def incomplete: Vector[(Int, Remote)] = remotes.toVector.sortBy(_._1)

  def has(bin: Int): Boolean = logs(bin) != null

  /** The log of a bin, for its rows; null if the bin is absent. An access to rows that had to wait
    * for records would wait here.
    */
  def logOrNull(bin: Int): BinLog = logs(bin)

  def chain(bin: Int): Chain = {
    val chain = chains(bin)
    if (chain == null) Chain.Empty else chain
  }

  /** The numbers of the present bins, ascending. Another thread may remove one meanwhile. */
  def numbers: Iterator[Int] = present.iterator.filter(has)

  def put(bin: Int, log: BinLog, chain: Chain, remote: Option[Remote]): Unit = {
    logs(bin) = log
    chains(bin) = chain
    present += bin
    setRemote(bin, remote)
  }

  /** Notes what of a bin is elsewhere; None if nothing is. */
  def setRemote(bin: Int, remote: Option[Remote]): Unit = {
    remotes.updateWith(bin)(_ => remote)
    hasRemotes = remotes.nonEmpty
  }
  def setChain(bin: Int, chain: Chain): Unit = chains(bin) = chain
  def remove(bin: Int): Unit = {
    logs(bin) = null
    chains(bin) = null
    present -= bin
    setRemote(bin, None)
  }

  /** The sum of a figure of the bins that are counted. */
  def sum(isCounted: Int => Boolean)(figure: BinState => Long): Long = {
    var sum = 0L
    present.foreach(bin => if (isCounted(bin)) sum += figure(stateOf(bin)))
    sum
  }

  /** Heap bytes of all logs and chains. */
  def heapBytes: Long = {
    var sum = count * 16L
    foreachLog(log => sum += log.heapBytes)
    present.foreach { bin =>
      val chain = chains(bin)
      if (chain != null) sum += chain.heapBytes
    }
    remotes.valuesIterator.foreach(sum += _.heapBytes)
    sum
  }

  def bytesOnDisk: Long = {
    var sum = 0L
    foreachLog(log => sum += log.bytesOnDisk)
    sum
  }

  /** Another thread may remove a bin meanwhile. */
  private def foreachLog(f: BinLog => Unit): Unit = present.foreach { bin =>
    val log = logs(bin)
    if (log != null) f(log)
  }
}
