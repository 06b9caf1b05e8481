// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.testkit.LongRun

/** Thousands of schedules, each from its seed: no state is wrong, nothing stops, nothing is left
  * behind. More of them: [[Simulate]].
  */
class SimulationSuite extends AnyFunSuite {

  test("no schedule breaks the protocol") {
    val progress = Simulate.run(first = 1, schedules = SimulationSuite.Schedules, threads = 2)
    info(progress.summary)
    progress.failure.foreach(outcome => fail(Simulate.report(outcome)))
    info(progress.counts.strikes)
    assert(progress.counts.missing.isEmpty, "the schedules did too little to show anything")
  }

  test("a schedule follows from its seed") {
    def traceOf(seed: Long) = new Simulation(seed, isTraced = true).run().trace.last(Int.MaxValue)
    for (seed <- 1L to 20L) assert(traceOf(seed) == traceOf(seed))
  }
}

object SimulationSuite {
  private val Schedules = if (LongRun.isOn) 20000L else 3000L
}
