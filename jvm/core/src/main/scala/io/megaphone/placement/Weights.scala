// SPDX-License-Identifier: Apache-2.0
package io.megaphone.placement

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
    else (load.bytes * bytes._1 + timeOf(load) + load.workers * workers._1) / parts

  private def timeOf(load: Load) = if (busy._2 == 0) 0 else load.busyMs * busy._1
}

private object Weights {
  val OfCount = 0.05

  /** The factor of a measure with this sum, and its share: none if the sum is not known. */
  def part(sum: Double, share: Double): (Double, Double) =
    if (sum > 0) (share / sum, share) else (0, 0)
}
