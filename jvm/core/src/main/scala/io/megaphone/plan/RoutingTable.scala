// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import io.megaphone.errors.InvalidPlanException

/** Which worker owns which bin: what routes every row of a batch, and every bin of its state.
  *
  * A table never changes; moves make a new one. Equal tables have the same number and the same
  * content. Safe to share between threads and to send by Java serialization; it keeps two bytes a
  * bin.
  *
  * @param number
  *   tells the tables of one query apart; whoever makes a table chooses it
  * @param workers
  *   how many workers there are, numbered from 0; one may own no bin
  */
@SerialVersionUID(1L)
final class RoutingTable private[plan] (
    val number: Long,
    val workers: Int,
    owners: Array[Char]
) extends Serializable {

  /** How many bins there are, numbered from 0. */
  def bins: Int = owners.length

  /** The owner of a bin. On the path of every row, so a bin that does not exist fails as an array
    * index does.
    */
  def workerOf(bin: Int): Int = owners(bin).toInt

  /** The owner of the bin of a key's hash. On the path of every row. */
  def workerOfHash(hash: Int): Int = owners(Bins.of(hash, owners.length)).toInt

  /** The bins of one worker, ascending; a new array. Looks at every bin.
    *
    * @throws InvalidPlanException
    *   UNKNOWN_WORKER
    */
  def binsOf(worker: Int): Array[Int] = {
    RoutingTable.checkWorker(worker, workers)
    val owned = Array.newBuilder[Int]
    var bin = 0 // a range that is filtered would make an object for each bin
    while (bin < owners.length) {
      if (workerOf(bin) == worker) owned += bin
      bin += 1
    }
    owned.result()
  }

  /** How many bins each worker owns; a new array, by worker. */
  def binCounts: Array[Int] = {
    val counts = new Array[Int](workers)
    owners.foreach(owner => counts(owner.toInt) += 1)
    counts
  }

  /** The table after these moves.
    *
    * @param moves
    *   each bin at most once; a move to the bin's owner changes nothing
    * @param number
    *   the new table's number
    * @param workers
    *   how many workers the new table has; a worker beyond it must have lost all its bins
    * @throws InvalidPlanException
    *   INVALID_WORKERS, UNKNOWN_BIN, UNKNOWN_WORKER, DUPLICATE_BIN or WORKER_NOT_EMPTY
    */
  def moved(moves: Iterable[Move], number: Long, workers: Int): RoutingTable = {
    RoutingTable.checkWorkers(workers)
    val after = owners.clone()
    val seen = new Array[Boolean](bins)
    moves.foreach { move =>
      if (move.bin < 0 || move.bin >= bins)
        throw new InvalidPlanException.UnknownBin(move.bin, bins)
      RoutingTable.checkWorker(move.target, workers)
      if (seen(move.bin)) throw new InvalidPlanException.DuplicateBin(move.bin)
      seen(move.bin) = true
      after(move.bin) = move.target.toChar
    }
    val stranded = after.indexWhere(_ >= workers)
    if (stranded >= 0)
      throw new InvalidPlanException.WorkerNotEmpty(after(stranded).toInt, stranded, workers)
    new RoutingTable(number, workers, after)
  }

  /** The moves that lead from this table to another, by ascending bin; none that leaves a bin where
    * it is.
    *
    * @throws InvalidPlanException
    *   BINS_DIFFER
    */
  def movesTo(other: RoutingTable): Vector[Move] = {
    if (other.bins != bins) throw new InvalidPlanException.BinsDiffer(bins, other.bins)
    owners.indices.iterator
      .filter(bin => other.workerOf(bin) != workerOf(bin))
      .map(bin => Move(bin, other.workerOf(bin)))
      .toVector
  }

  /** A 64-bit hash of bins, workers and owners, but not of the number: the same in every JVM and
    * release, because files name the table that wrote them by it.
    */
  @transient lazy val contentHash: Long = {
    val ofSize = RoutingTable.mix(bins.toLong << 32 | workers.toLong)
    owners.foldLeft(ofSize)((hash, owner) => RoutingTable.mix(hash + owner.toLong))
  }

  /** The table for a file or a message: at most 16 bits a bin, see [[RoutingTableFormat]]. */
  def toBytes: Array[Byte] = RoutingTableFormat.encode(this)

  override def equals(other: Any): Boolean = other match {
    case that: RoutingTable =>
      (this eq that) || number == that.number && workers == that.workers && sameOwners(that)
    case _ => false
  }

  override def hashCode: Int = (31 * contentHash + number).hashCode

  override def toString: String = s"table $number, $workers worker${if (workers == 1) "" else "s"}"

  private def sameOwners(that: RoutingTable): Boolean =
    that.bins == bins && owners.indices.forall(bin => that.workerOf(bin) == workerOf(bin))
}

object RoutingTable {

  /** The most workers a table can have: one for each bin of the largest table. */
  val WorkersMax: Int = 1 << 16

  /** The table a query starts with: bin `b` belongs to worker `b mod workers`.
    *
    * @throws InvalidPlanException
    *   BINS_NOT_POWER_OF_TWO or INVALID_WORKERS
    */
  def roundRobin(bins: Int, workers: Int, number: Long = 0): RoutingTable =
    tabulate(bins, workers, number)(_ % workers)

  /** The table that gives each bin to the worker that a function names.
    *
    * @throws InvalidPlanException
    *   BINS_NOT_POWER_OF_TWO, INVALID_WORKERS or UNKNOWN_WORKER
    */
  def tabulate(bins: Int, workers: Int, number: Long)(workerOf: Int => Int): RoutingTable = {
    checkWorkers(workers)
    val owners = Array.tabulate(Bins.check(bins)) { bin =>
      val worker = workerOf(bin)
      checkWorker(worker, workers)
      worker.toChar
    }
    new RoutingTable(number, workers, owners)
  }

  /** What [[RoutingTable.toBytes]] wrote. A flipped bit may still give a valid table: files carry a
    * checksum.
    *
    * @throws InvalidPlanException
    *   DAMAGED_TABLE
    */
  def fromBytes(bytes: Array[Byte]): RoutingTable = RoutingTableFormat.decode(bytes)

  private[megaphone] def checkWorkers(workers: Int): Unit =
    if (workers < 1 || workers > WorkersMax)
      throw new InvalidPlanException.InvalidWorkers(workers, WorkersMax)

  private[megaphone] def checkWorker(worker: Int, workers: Int): Unit =
    if (worker < 0 || worker >= workers)
      throw new InvalidPlanException.UnknownWorker(worker, workers)

  /** Multiply and xor-shift, both reversible: two contents that differ in one owner never hash
    * alike.
    */
  private def mix(value: Long): Long = {
    val spread = (value ^ (value >>> 32)) * 0x9e3779b97f4a7c15L
    spread ^ (spread >>> 29)
  }
}
