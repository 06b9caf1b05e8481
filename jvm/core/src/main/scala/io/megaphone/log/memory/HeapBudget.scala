// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log.memory

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}
import java.util.concurrent.atomic.LongAdder

/** The heap that the logs of an executor may take, and where their pages go that do not fit.
  *
  *   1. Whoever holds logs tells what they take, from time to time (`measure`); what pages have
  *      grown by since is added. Logs are not given back: they go by garbage collection, and the
  *      next measurement knows.
  *   1. A log that is about to grow beyond the budget pays for it, with closed pages of its own,
  *      oldest first (`deficit`). So the pages of a load, and of a batch of any size, stay near it.
  *   1. After a commit a worker pays its share of what is still too much, with the bins that have
  *      not changed for longest (`excess`).
  *   1. A page comes back when it is read from and there is room for it. As long as there is none,
  *      single records are read where they lie.
  *
  * Indexes stay in memory, and so do small pages and the one that a log is writing: these are part
  * of the budget, and can be more than it.
  *
  * Any thread. The pages of a log are moved by the one that writes it.
  *
  * @param budgetBytes
  *   of heap, for all logs
  * @param pageBytesMin
  *   pages with less than this in them are not worth a place on disk
  */
final class HeapBudget(
    val budgetBytes: Long,
    overflow: SpillFiles,
    private[log] val pageBytesMin: Int = HeapBudget.PageBytesMin
) {
  private val grownBytes = new LongAdder // since ever; what pages gave back is taken off
  private val loads = ConcurrentHashMap.newKeySet[HeapBudget.Loading]()
  private val targetBytes = budgetBytes / 10 * 9
  @volatile private var known = HeapBudget.Known(0, 0)

  /** What all logs take, as far as it is known. */
  def heldBytes: Long = { val k = known; k.bytes + (grownBytes.sum - k.grownBytes) }

  /** Bytes of pages on disk. */
  def bytesOnDisk: Long = overflow.liveBytes

  /** Says what all logs of holdings and copies take. What grows while they are summed counts twice
    * until the next time, rather than not at all.
    */
  def measure(logs: => Long): Unit = synchronized {
    val grown = grownBytes.sum
    var sum = logs
    loads.forEach(l => sum += l.heapBytes)
    known = HeapBudget.Known(sum, grown)
  }

  /** Whether so much is held that workers should give some up. */
  def isTight: Boolean = heldBytes > targetBytes

  /** What a worker that has so much of it should give up, to bring all to nine tenths of the
    * budget.
    */
  def share(bytes: Long): Long = {
    val held = heldBytes
    if (held <= targetBytes) 0
    else math.min(bytes, math.ceil((held - targetBytes).toDouble * bytes / held).toLong)
  }

  /** What copies that are made ahead should give up: a tenth of the budget is for the batches that
    * run meanwhile, which cannot wait for room as a copy can.
    */
  def excessOfReplicas: Long = math.max(0L, heldBytes - targetBytes)

  /** What is missing for so many bytes more. */
  private[log] def deficit(bytes: Int): Long = math.max(0L, heldBytes + bytes - budgetBytes)

  /** A page is there, or, below zero, is not any more. */
  private[log] def grew(bytes: Int): Unit = grownBytes.add(bytes.toLong)

  /** Whether a page may come back: with a fifth of the budget to spare, so that it does not leave
    * again at once.
    */
  private[log] def hasRoom(bytes: Int): Boolean = heldBytes + bytes <= budgetBytes / 10 * 8

  private[log] def write(page: Array[Byte]): SpillFiles.SpilledPage = overflow.write(page)

  /** Logs that are being loaded, and are in no holding yet. */
  def loading[A](load: HeapBudget.Loading => A): A = {
    val one = new HeapBudget.Loading
    loads.add(one)
    try load(one)
    finally { loads.remove(one); () }
  }
}

object HeapBudget {

  private val PageBytesMin = 3584 // a page of 4 KiB has so much in it, unless records are large
  private final case class Known(bytes: Long, grownBytes: Long)

  /** Takes memory of the heap. */
  trait User {
    def heapBytes: Long
  }

  /** What a load has made so far. */
  final class Loading private[HeapBudget] {
    private val made = new ConcurrentLinkedQueue[User]
    def add[A <: User](user: A): A = { made.add(user); user }
    private[HeapBudget] def heapBytes: Long = {
      var sum = 0L; made.forEach(u => sum += u.heapBytes); sum
    }
  }

  /** No budget: all pages stay on the heap. */
  val Unlimited: HeapBudget = new HeapBudget(Long.MaxValue, new SpillFiles(Vector.empty))
}
