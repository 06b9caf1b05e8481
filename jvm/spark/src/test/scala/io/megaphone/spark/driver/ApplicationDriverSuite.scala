// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.driver

import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import org.apache.logging.log4j.Level
import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.time.SpanSugar._

import io.megaphone.spark.query.PluginSession

/** How an application ends while its driver works in the background. */
final class ApplicationDriverSuite extends PluginSession {

  /** Of a thread that waits for others, or has ended. */
  private val Settled = Set(Thread.State.TIMED_WAITING, Thread.State.TERMINATED)

  /** Work in the background that waits to be let go. */
  private final class Waiting(application: ApplicationDriver) {
    val (begun, mayGo, over) = (new CountDownLatch(1), new CountDownLatch(1), new CountDownLatch(1))
    val wasCut = new AtomicBoolean
    application.sweep {
      begun.countDown()
      try mayGo.await()
      catch { case e: InterruptedException => wasCut.set(true); throw e }
      finally over.countDown()
    }
    assert(begun.await(60, TimeUnit.SECONDS))
  }

  test("A sweep that has begun ends before the application does, as of a run of one batch.") {
    val application = new ApplicationDriver(spark.sparkContext)
    val sweep = new Waiting(application)
    val stopping = new Thread(() => application.stop(sweepsEndMs = 600000))
    val told = logged(classOf[ApplicationDriver], Level.INFO) {
      stopping.start()
      try {
        eventually(timeout(60.seconds))(assert(Settled(stopping.getState)))
        assert(!application.sweep(fail("It came too late.")))
      } finally sweep.mayGo.countDown()
      stopping.join(60000)
    }
    assert(!stopping.isAlive && sweep.over.getCount == 0 && !sweep.wasCut.get)
    assert(told.isEmpty)
  }

  test("A sweep that hangs is cut, and the log says so in a sentence.") {
    val application = new ApplicationDriver(spark.sparkContext)
    val sweep = new Waiting(application)
    val told = logged(classOf[ApplicationDriver], Level.INFO) {
      application.stop(sweepsEndMs = 1)
      assert(sweep.over.await(60, TimeUnit.SECONDS))
    }
    assert(sweep.wasCut.get)
    assert(told.size == 1 && told.head.contains("sweeps that have not ended within 1 ms are cut"))
  }

  test("Sweeps and looks at files that hang keep no thread from another query's.") {
    val application = new ApplicationDriver(spark.sparkContext, turnMs = 1)
    val (goOn, areDone) = (new CountDownLatch(1), new CountDownLatch(2))
    try {
      for (_ <- 1 to 20) {
        application.sweep(goOn.await())
        application.aside(goOn.await())
      }
      application.sweep(areDone.countDown())
      application.aside(areDone.countDown())
      assert(areDone.await(60, TimeUnit.SECONDS))
    } finally { goOn.countDown(); application.stop() }
  }

  test("Few sweeps are at work at the same time, and each has its turn.") {
    val application = new ApplicationDriver(spark.sparkContext)
    val (atWork, most) = (new AtomicInteger, new AtomicInteger)
    val (four, goOn, areDone) =
      (new CountDownLatch(4), new CountDownLatch(1), new CountDownLatch(20))
    try {
      for (_ <- 1 to 20) application.sweep {
        val now = atWork.incrementAndGet()
        most.getAndUpdate(math.max(_, now))
        four.countDown()
        goOn.await()
        atWork.decrementAndGet()
        areDone.countDown()
      }
      assert(four.await(60, TimeUnit.SECONDS))
      goOn.countDown()
      assert(areDone.await(60, TimeUnit.SECONDS) && most.get == 4)
    } finally { goOn.countDown(); application.stop() }
  }
}
