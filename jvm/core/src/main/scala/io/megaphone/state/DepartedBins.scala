// SPDX-License-Identifier: Apache-2.0
package io.megaphone.state

import scala.collection.mutable

import io.megaphone.format.{Chain, Footer}
import io.megaphone.log.BinLog

/** The bins that have left a worker with its last steps, as they were then. A standby of their new
  * worker on the same executor takes them from here instead of from files.
  *
  * A bin is known by its chain, which tells what is in it: so it is never taken as of another
  * version. Nobody writes to it any more.
  *
  * Threads: under the monitor of its holding.
  */
private[state] final class DepartedBins {
  import DepartedBins._

  private val departed = mutable.Map.empty[Int, Departed]
  @volatile private var bytes = 0L

  /** Heap bytes of all. Who measures the heap does not wait for the holding: any thread may ask. */
  def heapBytes: Long = bytes

  /** Adds a bin that left when its worker was at a version. */
  def add(bin: LoadedBin, version: Long): Unit = {
    departed(bin.bin) = Departed(bin, version)
    measure()
  }

  /** Hands a bin over that is there with this chain. */
  def take(bin: Int, chain: Chain): Option[BinLog] =
    departed.get(bin).filter(_.bin.chain == chain).map { found =>
      departed -= bin
      measure()
      found.bin.log
    }

  /** Drops the bins that left long before a version: no standby is brought forward so far. */
  def dropBefore(version: Long): Unit = if (departed.nonEmpty) {
    departed.filterInPlace((_, found) => found.version + VersionsKept >= version)
    measure()
  }

  def clear(): Unit = { departed.clear(); measure() }

  private def measure(): Unit = bytes = departed.valuesIterator.map(_.bin.log.heapBytes).sum
}

private object DepartedBins {
  private val VersionsKept = Footer.PreviousMax
  private final case class Departed(bin: LoadedBin, version: Long)
}
