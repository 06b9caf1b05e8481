// SPDX-License-Identifier: Apache-2.0
package io.megaphone.benchmarks

import java.util.{Collection => JCollection, Collections}

import org.openjdk.jmh.infra.{BenchmarkParams, IterationParams}
import org.openjdk.jmh.profile.InternalProfiler
import org.openjdk.jmh.results.{IterationResult, Result}

/** Lets another process say when each iteration begins: two JVMs that are asked by turns are slowed
  * by the same things. A JMH profiler that measures nothing, for a run without forks (`-f 0`).
  *
  *   1. Before an iteration, warm-up or not, it waits for a line on the standard input. If the
  *      input has ended, nobody asks any more, and the JVM ends.
  *   2. After the iteration it writes a line to the standard output, `{"score": [value]}`, in the
  *      benchmark's unit. All else that JMH writes has to go to a file (`-o`).
  */
class ByTurns extends InternalProfiler {

  override def getDescription: String = "Iterations begin when a line of the input asks for one"

  override def beforeIteration(benchmark: BenchmarkParams, iteration: IterationParams): Unit =
    if (Console.in.readLine() == null) System.exit(0)

  override def afterIteration(
      benchmark: BenchmarkParams,
      iteration: IterationParams,
      result: IterationResult
  ): JCollection[Result[_]] = {
    println(s"""{"score": [${result.getPrimaryResult.getScore}]}""")
    Collections.emptyList()
  }
}
