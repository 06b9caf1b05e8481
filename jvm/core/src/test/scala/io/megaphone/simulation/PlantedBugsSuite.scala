// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import org.scalatest.funsuite.AnyFunSuite

/** The simulation finds what it is there to find: each planted bug within a bounded number of
  * schedules.
  */
class PlantedBugsSuite extends AnyFunSuite {

  for (bug <- Bug.All) test(s"finds ${bug.schedule}, $bug") {
    val progress = Simulate.run(
      first = 1,
      schedules = PlantedBugsSuite.SchedulesMax,
      threads = 2,
      bug = Some(bug)
    )
    assert(progress.failure.isDefined, s"not found in ${progress.summary}")
    info(
      s"after ${progress.counts.schedules} schedules: " +
        progress.failure.flatMap(_.failure).fold("")(_.getMessage)
    )
  }
}

object PlantedBugsSuite {
  private val SchedulesMax = 8000L
}
