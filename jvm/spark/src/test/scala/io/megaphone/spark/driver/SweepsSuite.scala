// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.io.IOException
import java.util.concurrent.TimeUnit

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.checkpoint.Settled
import io.megaphone.checkpoint.planlog.History
import io.megaphone.format.{StoreId, VersionIds}
import io.megaphone.pace.Clock
import io.megaphone.runtime.SweepOrder

/** When a run's sweep begins. */
final class SweepsSuite extends AnyFunSuite {
  private val order =
    SweepOrder(5, Settled(9, Map.empty, Map.empty), Vector.empty, History.Empty)
  private type Ids = Option[Map[StoreId, VersionIds]]

  private final class Run {
    var queued = Vector.empty[() => Unit]
    var looks = 0
    var minutes = 1L
    var warnings = Vector.empty[String]
    private val sweeps = new Sweeps(
      "run",
      _ => fail("there is no store"),
      _ => fail("there is no store"),
      work => { queued :+= (() => work); true },
      text => warnings :+= text,
      new Clock {
        override def nanoTime: Long = TimeUnit.MINUTES.toNanos(minutes)
        override def waitOn(monitor: Object, nanos: Long): Unit = ()
      }
    )
    def start(ids: => Ids = Some(Map.empty)): Unit = sweeps.start(order) { looks += 1; ids }
  }

  test("The ids are looked for at once: Spark drops them before a sweep that waits begins.") {
    val run = new Run
    run.start()
    assert(run.looks == 1 && run.queued.size == 1)
    run.start()
    assert(run.looks == 1 && run.queued.size == 1, "one sweep of a run at a time")
    run.queued.head()
    run.start()
    assert(run.looks == 2 && run.queued.size == 2)
  }

  test("Ids that are gone, or cannot be read, end one sweep only.") {
    val run = new Run
    run.start(None)
    run.start(throw new IOException("the connection was lost"))
    assert(run.looks == 2 && run.queued.isEmpty)
    run.start()
    assert(run.queued.size == 1)
  }

  test("A sweep that hangs is told once it has been at work for ten minutes.") {
    val run = new Run
    run.start()
    run.minutes += 9
    run.start()
    assert(run.warnings.isEmpty)
    run.minutes += 1
    run.start()
    assert(run.warnings.size == 1 && run.warnings.head.contains("for 10 minutes"))
    run.queued.head()
    run.start()
    assert(run.warnings.size == 1, "the next one has just begun")
  }
}
