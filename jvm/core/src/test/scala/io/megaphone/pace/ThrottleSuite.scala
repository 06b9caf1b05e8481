// SPDX-License-Identifier: Apache-2.0
package io.megaphone.pace

import java.util.concurrent.CountDownLatch

import org.scalatest.funsuite.AnyFunSuite

/** Threads that copy keep to the rate of their run. */
class ThrottleSuite extends AnyFunSuite {
  private val Second = 1000000000L
  private val MiB = 1L << 20

  test("pieces take as long as the rate says, in all") {
    val clock = new Hands
    val throttle = new Throttle(clock)
    throttle.keep(Map("run" -> CopyRate(besideTasks = 1000, alone = 0)))
    throttle.taskBegins()
    (1 to 10).foreach(_ => throttle.pass("run", 500))
    assert(clock.nanoTime == 5 * Second)
  }

  test("a large piece is paid for in portions, so that each batch has its part of it") {
    val clock = new Hands
    val throttle = new Throttle(clock)
    throttle.keep(Map("run" -> CopyRate(besideTasks = MiB, alone = 0)))
    throttle.taskBegins()
    var (most, paid) = (0L, 0L)
    clock.onWait = () => {
      most = math.max(most, throttle.besideTasks("run") - paid)
      paid = MiB * clock.nanoTime / Second
    }
    throttle.pass("run", 32 * MiB)
    assert(throttle.besideTasks("run") == 32 * MiB && clock.nanoTime == 32 * Second)
    assert(most < MiB / 2)
  }

  test("what was not copied in time is not saved for later") {
    val clock = new Hands
    val throttle = new Throttle(clock)
    throttle.keep(Map("run" -> CopyRate(1000, 1000)))
    clock.nanoTime = 100 * Second
    throttle.pass("run", 2000)
    assert(clock.nanoTime == 102 * Second)
  }

  test("while no task runs there is another rate, and a run without a rate does not wait") {
    val clock = new Hands
    val throttle = new Throttle(clock)
    throttle.pass("run", 1 << 30)
    throttle.keep(Map("run" -> CopyRate(besideTasks = 1, alone = 1000)))
    throttle.pass("run", 2000)
    throttle.pass("other", 1 << 30)
    assert(clock.nanoTime == 2 * Second)
  }

  test("copies are free if they keep to no rate, beside tasks or between them") {
    val throttle = new Throttle(new Hands)
    throttle.keep(Map("paced" -> CopyRate(1000, 0), "limited" -> CopyRate(1000, 2000)))
    def free = Seq("paced", "limited", "unknown").filter(throttle.isFree)
    assert(free == Seq("paced", "unknown"))
    throttle.taskBegins()
    assert(free == Seq("unknown"))
    throttle.keep(Map("paced" -> CopyRate.Unlimited, "limited" -> CopyRate(2000, 2000)))
    assert(free == Seq("paced", "unknown"))
  }

  test("two runs do not wait for each other's copies") {
    val clock = new Hands
    val throttle = new Throttle(clock)
    throttle.keep(Map("slow" -> CopyRate(1, 1), "quick" -> CopyRate(1000, 1000)))
    var quickNanos = 0L
    clock.onWait = () => {
      clock.onWait = () => ()
      val from = clock.nanoTime
      throttle.pass("quick", 1000)
      quickNanos = clock.nanoTime - from
    }
    throttle.pass("slow", 1000)
    assert(quickNanos == Second)
  }

  test("the waiting ends with the last task, when the run ends, and on an interrupt") {
    def waiting(end: (Throttle, Thread) => Unit): Unit = {
      val throttle = new Throttle(Clock.System)
      throttle.keep(Map("run" -> CopyRate(besideTasks = 1, alone = 0)))
      throttle.taskBegins()
      val passed = new CountDownLatch(1)
      val copier = new Thread(() => {
        try throttle.pass("run", 1L << 20)
        catch { case _: InterruptedException => () }
        passed.countDown()
      })
      copier.start()
      end(throttle, copier)
      passed.await() // for ever, if nothing ends the waiting
    }
    waiting((throttle, _) => throttle.taskEnds())
    waiting((throttle, _) => throttle.keep(Map.empty))
    waiting((_, copier) => copier.interrupt())
  }
}
