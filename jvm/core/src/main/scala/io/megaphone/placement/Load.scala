// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

/** What workers are to the executor that runs them.
  *
  * @param bytes
  *   bytes of their live records; 0 if they are not known
  * @param busyMs
  *   how long their tasks use their state in a batch, in milliseconds; `Load.NotKnown` if that is
  *   not known of all of them
  * @param workers
  *   how many they are
  */
final case class Load(bytes: Long = 0, busyMs: Double = 0, workers: Int = 1) {
  def +(other: Load): Load =
    Load(bytes + other.bytes, busyMs + other.busyMs, workers + other.workers)
}

object Load {
  val Zero: Load = Load(workers = 0)

  /** A time that is not known. No sum with it is known. */
  val NotKnown: Double = Double.NaN

  /** The sum of the loads on each executor. */
  def byExecutor(loads: Iterable[(String, Load)]): Map[String, Load] =
    loads.groupMapReduce(_._1)(_._2)(_ + _)

  def sum(loads: IterableOnce[Load]): Load = loads.iterator.foldLeft(Zero)(_ + _)
}
