// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

import scala.util.Random

import org.scalacheck.{Gen, Shrink}

/** Routing tables for property tests: any size up to a few thousand bins, balanced or not. */
object Tables {

  /* A shrunk table would be built past the generator's limits, and is no easier to read than its
   * seed. */
  implicit def noShrink[A]: Shrink[A] = Shrink.shrinkAny

  /** A number of bins from 1 to 2,048. */
  val binCounts: Gen[Int] = Gen.choose(0, 11).map(1 << _)

  /** A number of workers, often near that of the bins or far below. */
  val workerCounts: Gen[Int] = Gen.oneOf(Gen.choose(1, 8), Gen.choose(1, 70), Gen.choose(1, 300))

  /** Each bin anywhere; many workers own nothing, some own much. */
  def random(bins: Int, workers: Int, seed: Long): RoutingTable = {
    val random = new Random(seed)
    val skew = 1 + random.nextInt(4)
    RoutingTable.tabulate(bins, workers, number = 1)(_ =>
      (math.pow(random.nextDouble(), skew) * workers).toInt
    )
  }

  /** Round robin or random. */
  val tables: Gen[RoutingTable] = for {
    bins <- binCounts
    workers <- workerCounts
    seed <- Gen.long
    table <- Gen.oneOf(RoutingTable.roundRobin(bins, workers), random(bins, workers, seed))
  } yield table
}
