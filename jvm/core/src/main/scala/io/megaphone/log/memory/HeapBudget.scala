// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}
import java.util.concurrent.atomic.LongAdder

/** The heap that the logs of an executor may use, and the files that take the pages beyond it.
  *
  *   1. Usage is measured now and then (`measure`); growth since then is added to it. Logs are
  *      never released explicitly: once collected, they are missing from the next measurement.
  *   1. A log that is about to grow beyond the budget first spills full pages of its own, oldest
  *      first (`deficit`). So usage stays near the budget during a load or a batch of any size.
  *   1. After a commit standbys spill first, as long as the budget is tight (`excessAtOnce`). Then
  *      the worker spills its share of the remaining excess (`share`), from the bins that have not
  *      changed for longest.
  *   1. A spilled page returns to the heap when it is read and there is room for it. Otherwise
  *      single records are read from disk.
  *
  * Indexes, small pages and the page that a log is writing stay in memory. They count toward the
  * budget and may exceed it.
  *
  * Threads: any. A log's pages are moved only by the thread that writes the log.
  *
  * @param budgetBytes
  *   heap for all logs
  * @param pageBytesMin
  *   pages with fewer bytes are not spilled
  */
final class HeapBudget(
    val budgetBytes: Long,
    overflow: SpillFiles,
    private[log] val pageBytesMin: Int = HeapBudget.PageBytesMin
) {
  private val grownBytes = new LongAdder // since the start; freed pages are subtracted
  private val loads = ConcurrentHashMap.newKeySet[HeapBudget.Loading]()
  private val targetBytes = budgetBytes / 10 * 9
  @volatile private var known = HeapBudget.Known(0, 0)

  /** Heap bytes of all logs: the last measurement plus the growth since. */
  def heldBytes: Long = {
    val k = known
    k.bytes + (grownBytes.sum - k.grownBytes)
  }

  /** Bytes of the pages on disk. */
  def bytesOnDisk: Long = overflow.liveBytes

  /** Returns what tells how many bytes the calling thread has spilled in all. Any thread may ask
    * it.
    */
  def spilledHere: () => Long = overflow.writtenHere

  /** Records the heap bytes of all logs of holdings and replicas. Growth while they are summed
    * counts twice until the next measurement, rather than not at all.
    */
  def measure(logs: => Long): Unit = synchronized {
    val grown = grownBytes.sum
    var sum = logs
    loads.forEach(l => sum += l.heapBytes)
    known = HeapBudget.Known(sum, grown)
  }

  /** Whether usage is so high that workers should spill. */
  def isTight: Boolean = heldBytes > targetBytes

  /** Returns how many bytes a worker that holds `bytes` should spill, so that all together come
    * down to nine tenths of the budget.
    */
  def share(bytes: Long): Long = {
    val held = heldBytes
    if (held <= targetBytes) 0
    else math.min(bytes, math.ceil((held - targetBytes).toDouble * bytes / held).toLong)
  }

  /** Bytes that prepared replicas should spill. A tenth of the budget is reserved for running
    * batches, which cannot wait for room as a replica can.
    */
  def excessOfReplicas: Long = math.max(0L, heldBytes - targetBytes)

  /** Bytes of it that a holding should spill under one lease, so that no task waits for long. */
  def excessAtOnce: Long = math.min(HeapBudget.SpilledAtOnce, excessOfReplicas)

  /** Returns how far `bytes` more would exceed the budget. */
  private[log] def deficit(bytes: Int): Long = math.max(0L, heldBytes + bytes - budgetBytes)

  /** Accounts for a page that entered the heap or grew (`bytes` > 0), or left it or shrank (`bytes`
    * < 0).
    */
  private[log] def grew(bytes: Int): Unit = grownBytes.add(bytes.toLong)

  /** Whether a page may return to the heap: a fifth of the budget must stay free, so that the page
    * does not leave again at once.
    */
  private[log] def hasRoom(bytes: Int): Boolean = heldBytes + bytes <= budgetBytes / 10 * 8

  /** State was dropped for want of room: its pages on disk are collected once the disk is full. */
  def dropped(): Unit = overflow.collectAgain()

  private[log] def write(page: Array[Byte]): SpillFiles.SpilledPage = overflow.write(page)

  /** Runs `load`. Until it ends, counts the logs that it registers: no holding has them yet. */
  def loading[A](load: HeapBudget.Loading => A): A = {
    val one = new HeapBudget.Loading
    loads.add(one)
    try load(one)
    finally {
      loads.remove(one)
      ()
    }
  }
}

object HeapBudget {

  private val PageBytesMin = 3584 // a 4 KiB page has at least this, unless records are large
  private val SpilledAtOnce = 16L << 20
  private final case class Known(bytes: Long, grownBytes: Long)

  /** An object that uses heap of the budget. */
  trait User {
    def heapBytes: Long
  }

  /** The logs that a load has made so far. */
  final class Loading private[HeapBudget] {
    private val made = new ConcurrentLinkedQueue[User]
    def add[A <: User](user: A): A = {
      made.add(user)
      user
    }
    private[HeapBudget] def heapBytes: Long = {
      var sum = 0L
      made.forEach(u => sum += u.heapBytes)
      sum
    }
  }

  /** No budget: all pages stay on the heap. */
  val Unlimited: HeapBudget = new HeapBudget(Long.MaxValue, new SpillFiles(Vector.empty))
}
