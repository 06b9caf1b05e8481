// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.testkit.LongRun

/** The simulation finds what it is there to find: each planted bug within a bounded number of
  * schedules.
  */
class PlantedBugsSuite extends AnyFunSuite {
  import PlantedBugsSuite._

  for (bug <- Bug.All if LongRun.isOn || !Rare(bug)) test(s"finds ${bug.schedule}, $bug") {
    val progress = Simulate.run(
      first = 1,
      schedules = SchedulesMax,
      threads = 2,
      bug = Some(bug)
    )
    val found = progress.failure.flatMap(_.failure).map(_.getMessage)
    assert(found.isDefined, s"not found in ${progress.summary}")
    info(s"after ${progress.counts.schedules} schedules: ${found.get}")
    if (bug.schedule == "rule 30")
      assert(found.get.contains("is said to be free to go"))
  }
}

object PlantedBugsSuite {
  private val SchedulesMax = 8000L

  /** Those that few of a thousand schedules show: they take most of the suite's time. */
  private val Rare: Set[Bug] = Set(
    Bug.LogReadLate,
    Bug.UnsettledImage,
    Bug.SliceOfOtherVersion,
    Bug.GoesWithReplicas,
    Bug.WholeByMemory
  )
}
