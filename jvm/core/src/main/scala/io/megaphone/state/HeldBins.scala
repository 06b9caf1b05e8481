// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import io.megaphone.format.Chain
import io.megaphone.log.BinLog

/** The bins of one holding: the log and the chain of each bin that is present.
  *
  * It alone knows how a [[BinState]] is kept. A log is looked up for every row, so the logs have an
  * array of their own, and a state is made only for those who ask for one.
  *
  * Threads: those of its holding.
  */
private[state] final class HeldBins(count: Int) {
  private val logs = new Array[BinLog](count) // null: absent
  private val chains = new Array[Chain](count)

  def stateOf(bin: Int): BinState = {
    val log = logs(bin)
    if (log == null) BinState.Absent else BinState.Local(log)
  }

  def has(bin: Int): Boolean = logs(bin) != null

  /** The log of a bin, for its rows; null if the bin is absent. An access to rows that had to wait
    * for records would wait here.
    */
  def logOrNull(bin: Int): BinLog = logs(bin)

  def chain(bin: Int): Chain = if (chains(bin) == null) Chain.Empty else chains(bin)

  /** The numbers of the bins that are present, ascending. */
  def numbers: Iterator[Int] = logs.indices.iterator.filter(has)

  def put(bin: Int, log: BinLog, chain: Chain): Unit = { logs(bin) = log; chains(bin) = chain }
  def setChain(bin: Int, chain: Chain): Unit = chains(bin) = chain
  def remove(bin: Int): Unit = { logs(bin) = null; chains(bin) = null }

  /** The sum of a figure of the bins that are counted. */
  def sum(isCounted: Int => Boolean)(figure: BinState => Long): Long = {
    var sum = 0L
    var bin = 0
    while (bin < count) {
      if (has(bin) && isCounted(bin)) sum += figure(stateOf(bin))
      bin += 1
    }
    sum
  }

  /** Heap bytes of all logs and chains. */
  def heapBytes: Long = {
    var sum = count * 16L
    logs.foreach(log => if (log != null) sum += log.heapBytes)
    chains.foreach(chain => if (chain != null) sum += chain.heapBytes)
    sum
  }

  def bytesOnDisk: Long = {
    var sum = 0L
    logs.foreach(log => if (log != null) sum += log.bytesOnDisk)
    sum
  }
}
