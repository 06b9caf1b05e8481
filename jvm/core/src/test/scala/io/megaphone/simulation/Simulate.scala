// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import java.util.concurrent.atomic.{AtomicLong, AtomicReference}

/** Runs schedules by the thousand: `Simulate [schedules] [first seed] [threads]`.
  *
  * Where one fails, prints its seed, what was wrong, the end of its trace, and the command that
  * runs it alone. The environment may say the same: `SCHEDULES`, `SEED`, `THREADS`; and `BUG`, one
  * that is to be planted.
  */
object Simulate {

  def main(arguments: Array[String]): Unit = {
    def value(index: Int, name: String, default: Long) =
      arguments.lift(index).orElse(sys.env.get(name)).fold(default)(_.toLong)
    val schedules = value(0, "SCHEDULES", 20000)
    val first = value(1, "SEED", 1)
    val threads = value(2, "THREADS", 2).toInt
    val bug = sys.env.get("BUG").flatMap(name => Bug.All.find(_.toString == name))
    val progress = run(first, schedules, threads, bug, isLoud = true)
    println(progress.summary)
    println(progress.counts.strikes)
    progress.failure.foreach { outcome =>
      println(report(outcome))
      sys.exit(1)
    }
  }

  /** The progress of a run of schedules; `failure` is that of the lowest seed that failed. */
  final case class Progress(counts: Counts, failure: Option[Simulation.Outcome]) {
    def summary: String = counts.summary
  }

  /** Runs schedules from `first` on until one fails, on some threads that share nothing. */
  def run(
      first: Long,
      schedules: Long,
      threads: Int,
      bug: Option[Bug] = None,
      isLoud: Boolean = false
  ): Progress = {
    val next = new AtomicLong(first)
    val counts = new AtomicReference(Counts())
    val failure = new AtomicReference[Option[Simulation.Outcome]](None)
    val workers = Vector.tabulate(threads) { i =>
      new Thread(
        () => {
          var seed = next.getAndIncrement()
          while (seed < first + schedules && failure.get.isEmpty) {
            val outcome = new Simulation(seed, bug).run()
            if (outcome.failure.isDefined)
              failure.updateAndGet(f => if (f.exists(_.seed < seed)) f else Some(outcome))
            val sum = counts.updateAndGet(_ + outcome.counts)
            if (isLoud && sum.schedules % 2000 == 0) println(s"${sum.schedules} schedules")
            seed = next.getAndIncrement()
          }
        },
        s"simulation-$i"
      )
    }
    workers.foreach(_.start())
    workers.foreach(_.join())
    Progress(counts.get, failure.get.map(again(_, bug)))
  }

  /** Runs a failed schedule again, for its trace. Keeps the first failure, also if the second run
    * has none: the schedule then does not follow from its seed alone.
    */
  private def again(failed: Simulation.Outcome, bug: Option[Bug]): Simulation.Outcome = {
    val traced = new Simulation(failed.seed, bug, isTraced = true).run()
    if (traced.failure.isEmpty) traced.trace("the second run did not fail")
    traced.copy(failure = traced.failure.orElse(failed.failure))
  }

  /** What a failed schedule has to say; it must have been traced. */
  def report(outcome: Simulation.Outcome): String = {
    val stack = outcome.failure.fold(Vector.empty[String])(e =>
      Iterator
        .iterate(e)(_.getCause)
        .takeWhile(_ != null)
        .flatMap(c => s"  $c" +: c.getStackTrace.take(6).map(f => s"    at $f"))
        .toVector
    )
    val trace = outcome.trace.last(sys.env.get("LINES").fold(60)(_.toInt))
    val command = s"core/Test/runMain io.megaphone.simulation.Simulate 1 ${outcome.seed} 1"
    val lines = Vector(s"Seed ${outcome.seed} failed:") ++ stack ++
      Vector("The end of its trace:") ++ trace :+ s"""Run it alone: ./sbt "$command""""
    lines.mkString("\n")
  }
}
