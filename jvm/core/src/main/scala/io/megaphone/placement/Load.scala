// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

/** A worker of a group of operators. They are placed as one, because all operators of a group run
  * in the same tasks.
  */
final case class Seat(group: Long, worker: Int)

object Seat {
  implicit val order: Ordering[Seat] = Ordering.by(seat => (seat.group, seat.worker))
}

/** What workers are to the executor that runs them.
  *
  * @param bytes
  *   bytes of their live records; 0 if they are not known
  * @param busyMs
  *   how long their tasks use their state in a batch, in milliseconds; 0 if that is not known
  * @param workers
  *   how many they are
  */
final case class Load(bytes: Long = 0, busyMs: Double = 0, workers: Int = 1) {
  def +(other: Load): Load =
    Load(bytes + other.bytes, busyMs + other.busyMs, workers + other.workers)
}

object Load {
  val Zero: Load = Load(workers = 0)

  /** The sum of the loads on each executor. */
  def byExecutor(loads: Iterable[(String, Load)]): Map[String, Load] =
    loads.groupMapReduce(_._1)(_._2)(_ + _)

  def sum(loads: IterableOnce[Load]): Load = loads.iterator.foldLeft(Zero)(_ + _)
}

/** How much of all loads one load is: bytes and time count alike. What is not known of any is left
  * out. The number of workers counts little; it decides if nothing else is known.
  */
private[placement] final class Weights(all: Load) {
  private val bytes = Weights.part(all.bytes.toDouble, 1)
  private val busy = Weights.part(all.busyMs, 1)
  private val workers = Weights.part(all.workers.toDouble, Weights.OfCount)
  private val parts = bytes._2 + busy._2 + workers._2

  /** From 0 to 1; those of loads that make up all sum up to 1. */
  def apply(load: Load): Double =
    if (parts == 0) 0
    else (load.bytes * bytes._1 + load.busyMs * busy._1 + load.workers * workers._1) / parts
}

private object Weights {
  val OfCount = 0.05

  /** The factor of a measure with this sum, and its share. */
  def part(sum: Double, share: Double): (Double, Double) =
    if (sum > 0) (share / sum, share) else (0, 0)
}
