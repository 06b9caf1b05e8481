// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import java.util.SplittableRandom

/** The one source of chance of a schedule: equal seeds, equal schedules. */
final class Dice(seed: Long) {
  private val random = new SplittableRandom(seed)

  def below(bound: Int): Int = random.nextInt(bound)
  def between(least: Int, most: Int): Int = least + random.nextInt(most - least + 1)
  def long(): Long = random.nextLong()
  def chance(probability: Double): Boolean = random.nextDouble() < probability
  def pick[A](values: collection.IndexedSeq[A]): A = values(below(values.size))
  def pickOption[A](values: collection.IndexedSeq[A]): Option[A] =
    if (values.isEmpty) None else Some(pick(values))
  def shuffle[A](values: Vector[A]): Vector[A] =
    values.map(v => random.nextInt() -> v).sortBy(_._1).map(_._2)
}

object Dice {

  /** Scrambles a number: what must look random and yet follow from its arguments. */
  def mix(value: Long): Long = {
    var z = value + 0x9e3779b97f4a7c15L
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL
    z ^ (z >>> 31)
  }
}
